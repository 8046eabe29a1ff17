package stream

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/stream/streamtest"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

func TestHeadersAndFirstBytes(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{}, nil)
	s := r.open(testTable, "", "")
	h := s.Response.Header
	assert.Equal(t, "text/event-stream", h.Get("Content-Type"))
	assert.Equal(t, "no-cache, no-transform", h.Get("Cache-Control"))
	assert.Equal(t, "no", h.Get("X-Accel-Buffering"))
	assert.Empty(t, h.Get("Content-Encoding"))
	assert.Empty(t, h.Get("Content-Length"))

	b.publish(rowsChunk(testTable, 7))
	f, err := s.NextEvent()
	require.NoError(t, err)
	assert.Empty(t, f.Event)
	assert.True(t, f.HasID)
	assert.Equal(t, `{"table":"pages","received_at":"2026-03-24T12:00:00.123456Z","row":{"n":7,"page":"/home"}}`, f.Data)
}

// The bytes on the wire, with nothing between them and the test.
func TestWireFormat(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{}, nil)
	conn, err := net.Dial("tcp", r.server.Listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "GET /?table=pages HTTP/1.0\r\n\r\n")
	require.NoError(t, err)
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	body := bufio.NewReader(resp.Body)
	ids := r.hub.o.IDs.of(mq.Topic{Tenant: tenant.Default, Table: testTable})
	assert.Equal(t, ": connected\nretry: 2000\nid: "+ids.encode(after(mq.Position{}))+"\n\n", readBlock(t, body))
	at := b.publish(rowsChunk(testTable, 1, 2))
	for i, want := range []string{ids.encode(position{Position: at}), ids.encode(after(at))} {
		assert.Equal(t, fmt.Sprintf("id: %s\ndata: {\"table\":\"pages\",\"received_at\":\"2026-03-24T12:00:00.123456Z\",\"row\":{\"n\":%d,\"page\":\"/home\"}}\n\n", want, i+1), readBlock(t, body))
	}
	r.hub.EndTenant(tenant.Default, EndTenantRemoved)
	assert.Equal(t, "event: end\ndata: {\"reason\":\"tenant_removed\"}\n\n", readBlock(t, body))
	_, err = body.ReadByte()
	assert.ErrorIs(t, err, io.EOF)
}

func readBlock(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	var out strings.Builder
	for {
		line, err := r.ReadString('\n')
		require.NoError(t, err)
		out.WriteString(line)
		if line == "\n" {
			return out.String()
		}
	}
}

func TestSeveralRowsInOneChunk(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{}, nil)
	s := r.open(testTable, "", "")
	b.publish(rowsChunk(testTable, 1, 2, 3, 4, 5))
	b.publish(rowsChunk("other", 99))
	assert.Equal(t, []uint64{1, 2}, next(t, s, 2))
	id := s.LastID()
	s.Close()

	again := r.open(testTable, id, "")
	assert.Equal(t, []uint64{3, 4, 5}, next(t, again, 3))
	seen := map[string]bool{id: true, again.LastID(): true}
	assert.Len(t, seen, 2, "ids are unique")
	b.publish(rowsChunk(testTable, 6))
	assert.Equal(t, []uint64{6}, next(t, again, 1))
}

// A stream that is cut at any byte is continued with the last id that arrived
// whole, and the union has every row once.
func TestResumeAtAnyByte(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{}, nil)
	start := r.open(testTable, "", "").LastID()
	b.publish(rowsChunk(testTable, 1, 2, 3))
	b.publish(rowsChunk("other", 99))
	b.publish(rowsChunk(testTable, 4))
	b.publish(rowsChunk(testTable, 5, 6))

	req, err := http.NewRequest(http.MethodGet, r.server.URL+"/?table="+testTable, nil)
	require.NoError(t, err)
	req.Header.Set("Last-Event-ID", start)
	resp, err := r.server.Client().Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	var wire []byte
	for strings.Count(string(wire), "data:") < 6 || !strings.HasSuffix(string(wire), "\n\n") {
		one := make([]byte, 1)
		_, err := io.ReadFull(resp.Body, one)
		require.NoError(t, err)
		wire = append(wire, one...)
	}
	for cut := 0; cut <= len(wire); cut += 1 + cut%3 {
		got, id := readCut(t, wire[:cut], start)
		if len(got) < 6 {
			s := r.open(testTable, id, "")
			got = append(got, next(t, s, 6-len(got))...)
			s.Close()
		}
		assert.Equal(t, sequence(1, 6), got, "cut at byte %d", cut)
	}
}

// readCut reads what a client makes of the bytes it got.
func readCut(t *testing.T, wire []byte, start string) (rows []uint64, id string) {
	t.Helper()
	rt := roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(string(wire)))}, nil
	})
	req, err := http.NewRequest(http.MethodGet, "http://stream.test/", nil)
	require.NoError(t, err)
	s, err := streamtest.Open(&http.Client{Transport: rt}, req, start)
	require.NoError(t, err)
	for {
		f, err := s.NextEvent()
		if err != nil {
			return rows, s.LastID()
		}
		rows = append(rows, number(t, f))
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A client that was connected but saw no row yet misses nothing either.
func TestResumeBeforeTheFirstRow(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{}, nil)
	for _, rows := range [][]uint64{{1, 2}, {3}} {
		s := r.open(testTable, "", "")
		id := s.LastID()
		require.NotEmpty(t, id)
		s.Close()
		b.publish(rowsChunk(testTable, rows...))
		again := r.open(testTable, id, "")
		assert.Equal(t, rows, next(t, again, len(rows)))
		again.Close()
	}
}

func TestPositionOlderThanHistory(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{}, nil)
	s := r.open(testTable, "", "")
	b.publish(rowsChunk(testTable, 1))
	next(t, s, 1)
	id := s.LastID()
	s.Close()
	for n := uint64(2); n <= 6; n++ {
		b.publish(rowsChunk(testTable, n))
	}
	b.purge(tenant.Default, 2)

	again := r.open(testTable, id, "")
	f, err := again.NextEvent()
	require.NoError(t, err)
	gap, err := f.Gap()
	require.NoError(t, err)
	assert.Equal(t, id, gap.From)
	assert.Equal(t, GapRetention, gap.Reason)
	assert.Equal(t, gap.To, f.ID, "a client that was told is not told again")
	assert.Equal(t, []uint64{5, 6}, next(t, again, 2))
	b.publish(rowsChunk(testTable, 7))
	assert.Equal(t, []uint64{7}, next(t, again, 1))
	assert.Equal(t, 1.0, r.counter(r.hub.metrics.gaps.WithLabelValues("0", GapRetention)))

	told := r.open(testTable, gap.To, "")
	assert.Equal(t, []uint64{5, 6, 7}, next(t, told, 3))
}

func TestHistoryThatIsAllGone(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{}, nil)
	id := r.open(testTable, "", "").LastID()
	b.publish(rowsChunk(testTable, 1))
	b.purge(tenant.Default, 0)
	s := r.open(testTable, id, "")
	f, err := s.NextEvent()
	require.NoError(t, err)
	gap, err := f.Gap()
	require.NoError(t, err)
	assert.Equal(t, GapRetention, gap.Reason)
	b.publish(rowsChunk(testTable, 2))
	assert.Equal(t, []uint64{2}, next(t, s, 1))
}

func TestNonsensePositions(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{}, nil)
	at := b.publish(rowsChunk(testTable, 1))
	other := r.hub.o.IDs.of(mq.Topic{Tenant: tenant.Default, Table: "other"}).encode(after(at))
	for name, id := range map[string]string{"garbage": "garbage", "long": strings.Repeat("x", 10<<10), "of another table": other} {
		refused := r.refusal(testTable, id, "")
		assert.Equal(t, 400, refused.Status, name)
		assert.Contains(t, string(refused.Body), CodePositionInvalid, name)
	}
	assert.Contains(t, string(r.refusal(testTable, other, "").Body), "another table")
	assert.Zero(t, r.counter(r.hub.metrics.subscribers.WithLabelValues("0")))

	s := r.open(testTable, "", "&empty")
	b.publish(rowsChunk(testTable, 2))
	assert.Equal(t, []uint64{2}, next(t, s, 1), "none means from now")
}

func TestPositionsTheQueueNeverGave(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{}, nil)
	at := b.publish(rowsChunk(testTable, 1))
	ids := r.hub.o.IDs.of(mq.Topic{Tenant: tenant.Default, Table: testTable})
	epoch, _ := mq.SplitPosition(at)
	for name, p := range map[string]mq.Position{
		"future": mq.NewPosition(epoch, 1<<40), "another epoch": mq.NewPosition(epoch+1, 1),
	} {
		s := r.open(testTable, ids.encode(after(p)), sinceEver)
		f, err := s.NextEvent()
		require.NoError(t, err, name)
		gap, err := f.Gap()
		require.NoError(t, err, name)
		assert.Equal(t, GapReset, gap.Reason, name)
		assert.Equal(t, ids.encode(after(p)), gap.From, name)
		n := b.publish(rowsChunk(testTable, 2))
		assert.Equal(t, []uint64{2}, next(t, s, 1), "%s: live rows, no history (at %v)", name, n)
	}
}

func TestPositionOfARowThatItsChunkLacks(t *testing.T) {
	b := newMemoryBroker()
	var known atomic.Bool
	r := newRig(t, b, Options{Hidden: func(tenant.ID, string) ([]string, bool) { return nil, known.Load() }}, nil)
	at := b.publish(rowsChunk(testTable, 1, 2))
	ids := r.hub.o.IDs.of(mq.Topic{Tenant: tenant.Default, Table: testTable})
	for _, hides := range []bool{true, false} {
		known.Store(!hides)
		s := r.open(testTable, ids.encode(position{Position: at, row: 500}), "")
		known.Store(true)
		b.publish(rowsChunk(testTable, 3))
		f, err := s.NextEvent()
		require.NoError(t, err)
		assert.Equal(t, uint64(3), number(t, f))
		s.Close()
		at = b.publish(rowsChunk(testTable, 4))
	}
}

func TestLastEventIDWinsOverSince(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{}, nil)
	b.publish(rowsChunk(testTable, 1, 2))
	all := r.open(testTable, "", "&since=2026-03-24T12:00:00Z")
	assert.Equal(t, []uint64{1, 2}, next(t, all, 2))
	last := r.open(testTable, all.LastID(), "&since=2026-03-24T12:00:00Z")
	b.publish(rowsChunk(testTable, 3))
	assert.Equal(t, []uint64{3}, next(t, last, 1))
}

func TestSince(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{}, nil)
	for n := uint64(1); n <= 4; n++ {
		c := rowsChunk(testTable, n)
		c.Received = received.Add(time.Duration(n) * time.Second)
		b.publish(c)
	}
	at := func(n int) string {
		return "&since=" + received.Add(time.Duration(n)*time.Second).Format(time.RFC3339Nano)
	}
	assert.Equal(t, []uint64{3, 4}, next(t, r.open(testTable, "", at(3)), 2))
	assert.Equal(t, sequence(1, 4), next(t, r.open(testTable, "", at(-60)), 4), "nothing was removed: no gap")

	b.purge(tenant.Default, 2)
	f, err := r.open(testTable, "", at(-60)).NextEvent()
	require.NoError(t, err)
	gap, err := f.Gap()
	require.NoError(t, err)
	assert.Equal(t, GapRetention, gap.Reason)

	future := r.open(testTable, "", at(3600))
	b.publish(rowsChunk(testTable, 5))
	assert.Equal(t, []uint64{5}, next(t, future, 1))
}

func TestRefusalsComeBeforeTheStream(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{}, func(s *Subscription, _ *http.Request) { s.MaxSubscribers = 1 })
	r.refuse(errors.New("no grant"))
	assert.Equal(t, 403, r.refusal(testTable, "", "").Status)
	r.allow(testGrant{name: "all"})

	s := r.open(testTable, "", "")
	refused := r.refusal(testTable, "", "")
	assert.Equal(t, 429, refused.Status)
	assert.Contains(t, string(refused.Body), CodeTooManySubscribers)
	s.Close()
	eventually(t, "the place is free again", func() bool {
		again, err := r.tryOpen(testTable, "", "")
		if err == nil {
			again.Close()
		}
		return err == nil
	})

	b.mu.Lock()
	b.fail = mq.ErrUnavailable
	b.mu.Unlock()
	eventually(t, "the place is free", func() bool { return r.counter(r.hub.metrics.subscribers.WithLabelValues("0")) == 0 })
	assert.Equal(t, 503, r.refusal(testTable, "", "").Status)
	eventually(t, "nothing is left of closed streams", func() bool {
		r.hub.mu.Lock()
		defer r.hub.mu.Unlock()
		return len(r.hub.topics) == 0
	})
}

func TestEndTenantEndsOpenAndConnectingStreams(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{}, func(s *Subscription, req *http.Request) {
		if req.URL.Query().Has("other") {
			s.Tenant = "other"
		}
	})
	s, stays := r.open(testTable, "", ""), r.open(testTable, "", "&other")
	r.hub.EndTenant(tenant.Default, EndTenantRejected)
	f, err := s.NextEvent()
	require.NoError(t, err)
	assert.Equal(t, EndTenantRejected, f.EndReason())
	_, err = s.Next()
	require.ErrorIs(t, err, io.EOF)

	// One that registered before the tenant ended, and is still reading its
	// grant, is told as soon as it opens.
	once := true
	f2 := func() (Grant, error) {
		if once {
			once = false
			r.hub.EndTenant(tenant.Default, EndTenantRemoved)
		}
		return testGrant{name: "all"}, nil
	}
	r.grant.Store(&f2)
	late := r.open(testTable, "", "")
	f, err = late.NextEvent()
	require.NoError(t, err)
	assert.Equal(t, EndTenantRemoved, f.EndReason())

	c := rowsChunk(testTable, 1)
	c.Tenant = "other"
	b.publish(c)
	assert.Equal(t, []uint64{1}, next(t, stays, 1), "the other tenant's stream goes on")
}

func TestShutdownEndsStreamsAndSpreadsReconnects(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{}, nil)
	s := r.open(testTable, "", "")
	r.hub.CloseAll(EndShutdown)
	f, err := s.NextEvent()
	require.NoError(t, err)
	assert.Equal(t, EndShutdown, f.EndReason())
	assert.NotEmpty(t, f.Retry)
	assert.Equal(t, 503, r.refusal(testTable, "", "").Status)
}

func TestTokenExpiryEndsTheStream(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{}, func(s *Subscription, _ *http.Request) { s.Expires = time.Now().Add(50 * time.Millisecond) })
	s, err := r.tryOpen(testTable, "", "")
	require.NoError(t, err)
	defer s.Close()
	f, err := s.NextEvent()
	require.NoError(t, err)
	assert.Equal(t, EndTokenExpired, f.EndReason())
}

func TestKeepalive(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{}, func(s *Subscription, _ *http.Request) {
		s.Keepalive = func() (time.Duration, int) { return 20 * time.Millisecond, 4 }
	})
	s := r.open(testTable, "", "")
	f, err := s.Next()
	require.NoError(t, err)
	assert.Equal(t, []string{"keepalive"}, f.Comments)
	assert.False(t, f.HasID, "nothing was consumed")

	// Rows that this reader does not see still move its position, so that it
	// is not told of a gap it does not have.
	id := s.LastID()
	bad := rowsChunk(testTable, 1)
	bad.Format = mq.FormatJSONCompactEachRow
	b.publish(bad)
	for s.LastID() == id {
		f, err = s.Next()
		require.NoError(t, err)
		assert.False(t, f.HasData)
	}
	r.refuse(errors.New("role is gone"))
	f, err = s.NextEvent()
	require.NoError(t, err)
	assert.Equal(t, EndAccessRevoked, f.EndReason(), "a quiet stream learns it too")
}

// Chunks of other tables move the id of a quiet one's keepalives, so that it does
// not fall out of what is kept; whatever happens at that moment, no row is missed.
func TestKeepalivesFollowTheQueue(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{}, func(s *Subscription, _ *http.Request) {
		s.Keepalive = func() (time.Duration, int) { return 20 * time.Millisecond, 4 }
	})
	s, twin := r.open(testTable, "", ""), r.open(testTable, "", "")
	opening := s.LastID()
	b.publish(rowsChunk("other", 99))
	for _, one := range []*streamtest.Stream{s, twin} {
		for one.LastID() == opening {
			f, err := one.Next()
			require.NoError(t, err)
			assert.False(t, f.HasData)
		}
	}
	id := s.LastID()
	s.Close()
	b.purge(tenant.Default, 0)
	again := r.open(testTable, id, "")
	for n := range uint64(50) {
		b.publish(rowsChunk("other", 99))
		b.publish(rowsChunk(testTable, n))
		assert.Equal(t, []uint64{n}, next(t, again, 1), "no gap, and nothing missed")
		time.Sleep(time.Millisecond)
	}
}

// What is durable and not shown yet is not skipped.
func TestKeepalivesDoNotOvertakeTheFeed(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{}, func(s *Subscription, _ *http.Request) {
		s.Keepalive = func() (time.Duration, int) { return 10 * time.Millisecond, 1 }
	})
	s := r.open(testTable, "", "")
	opening := s.LastID()
	p := b.store(rowsChunk(testTable, 1))
	for range 30 {
		f, err := s.Next()
		require.NoError(t, err)
		assert.False(t, f.HasID)
	}
	assert.Equal(t, opening, s.LastID())
	b.show(rowsChunk(testTable, 1), p)
	assert.Equal(t, []uint64{1}, next(t, s, 1))
}

func TestReseatChangesTheRhythmOfOpenStreams(t *testing.T) {
	b := newMemoryBroker()
	var interval atomic.Int64
	interval.Store(int64(time.Hour))
	r := newRig(t, b, Options{}, func(s *Subscription, _ *http.Request) {
		s.Keepalive = func() (time.Duration, int) { return time.Duration(interval.Load()), 2 }
	})
	s := r.open(testTable, "", "")
	interval.Store(int64(10 * time.Millisecond))
	r.hub.Reseat()
	f, err := s.Next()
	require.NoError(t, err)
	assert.Equal(t, []string{"keepalive"}, f.Comments)
	interval.Store(int64(time.Hour))
	r.hub.Reseat()
	s.Close()
	assert.Eventually(t, func() bool {
		r.hub.wheel.mu.Lock()
		defer r.hub.wheel.mu.Unlock()
		return len(r.hub.wheel.rings) == 0
	}, patience, time.Millisecond)
}

func TestHTTP2(t *testing.T) {
	t.Parallel()
	b := newMemoryBroker()
	r := newRig(t, b, Options{WriteTimeout: 3 * time.Second}, nil)
	transport := &http.Transport{Protocols: new(http.Protocols), TLSClientConfig: &tls.Config{}}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.server.URL+"/?table="+testTable, nil)
	require.NoError(t, err)
	s, err := streamtest.Open(&http.Client{Transport: transport}, req, "")
	require.NoError(t, err)
	defer s.Close()
	require.Equal(t, 2, s.Response.ProtoMajor)
	_, err = s.Next()
	require.NoError(t, err)
	// A write deadline that passes while nothing is written ends nothing.
	idle := time.NewTimer(3500 * time.Millisecond)
	defer idle.Stop()
	<-idle.C
	b.publish(rowsChunk(testTable, 1, 2))
	assert.Equal(t, []uint64{1, 2}, next(t, s, 2))
	r.hub.EndTenant(tenant.Default, EndTenantRemoved)
	f, err := s.NextEvent()
	require.NoError(t, err)
	assert.Equal(t, EndTenantRemoved, f.EndReason())
	_, err = s.Next()
	assert.ErrorIs(t, err, io.EOF)
}

func TestQueueResetWhileStreaming(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{}, nil)
	s := r.open(testTable, "", "")
	b.publish(rowsChunk(testTable, 1))
	next(t, s, 1)
	b.reset(tenant.Default)
	b.publish(rowsChunk(testTable, 2))
	f, err := s.NextEvent()
	require.NoError(t, err)
	gap, err := f.Gap()
	require.NoError(t, err)
	assert.Equal(t, GapReset, gap.Reason)
	assert.Equal(t, []uint64{2}, next(t, s, 1))
}

// What the live feed missed comes from history, in its place.
func TestHoleOfTheFeedIsFilledFromHistory(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{}, nil)
	s, other := r.open(testTable, "", ""), r.open("other", "", "")
	for n := uint64(1); n <= 10; n++ {
		if n%3 == 0 {
			b.miss(rowsChunk(testTable, n), false)
			continue
		}
		b.publish(rowsChunk(testTable, n))
	}
	b.publish(rowsChunk("other", 11))
	assert.Equal(t, sequence(1, 10), next(t, s, 10))
	assert.Equal(t, []uint64{11}, next(t, other, 1))
	b.publish(rowsChunk(testTable, 12))
	assert.Equal(t, []uint64{12}, next(t, s, 1))
	assert.Zero(t, r.counter(r.hub.metrics.gaps.WithLabelValues("0", GapRetention)))
}

// What history lacks too is told.
func TestHoleThatNothingFillsIsAGap(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{}, nil)
	s := r.open(testTable, "", "")
	b.publish(rowsChunk(testTable, 1))
	assert.Equal(t, []uint64{1}, next(t, s, 1))
	b.miss(rowsChunk(testTable, 2), true)
	b.publish(rowsChunk(testTable, 3))
	f, err := s.NextEvent()
	require.NoError(t, err)
	gap, err := f.Gap()
	require.NoError(t, err)
	assert.Equal(t, GapRetention, gap.Reason)
	assert.Equal(t, []uint64{3}, next(t, s, 1))
	b.miss(rowsChunk(testTable, 4), true)
	f, err = s.NextEvent()
	require.NoError(t, err)
	_, err = f.Gap()
	require.NoError(t, err, "also when no row follows")
}
