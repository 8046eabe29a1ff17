package stream

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/stream/streamtest"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// sinceEver asks for all of history.
const sinceEver = "&since=2000-01-01T00:00:00Z"

const (
	patience    = time.Minute
	testTable   = "pages"
	testColumns = `[{"name":"n","type":"UInt64"},{"name":"page","type":"String"}]`
)

var received = time.Date(2026, 3, 24, 12, 0, 0, 123456789, time.UTC)

// testRow appends a row of testColumns.
func testRow(dst []byte, n uint64, page string) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, n)
	dst = binary.AppendUvarint(dst, uint64(len(page)))
	return append(dst, page...)
}

// rowsChunk makes a chunk of rows numbered as given.
func rowsChunk(table string, numbers ...uint64) mq.Chunk {
	var body []byte
	for _, n := range numbers {
		body = testRow(body, n, "/home")
	}
	return mq.Chunk{
		Topic:  mq.Topic{Tenant: tenant.Default, Table: table},
		Header: mq.Header{Version: mq.Version, Format: mq.FormatRowBinary, Columns: testColumns, Rows: len(numbers), Received: received},
		Body:   body,
	}
}

// testGrant shows what is not in deny.
type testGrant struct {
	name string
	deny []string
}

func (g testGrant) Allows(column string) bool { return !slices.Contains(g.deny, column) }
func (g testGrant) Fingerprint() string       { return g.name }

// rig is a hub behind a real HTTP server.
type rig struct {
	t       testing.TB
	hub     *Hub
	server  *httptest.Server
	client  *http.Client
	metrics *prometheus.Registry
	// grant is what every subscription's Grant calls.
	grant atomic.Pointer[func() (Grant, error)]
	// edit changes each subscription before it is served.
	edit func(*Subscription, *http.Request)
	stop func()
}

func newRig(t testing.TB, b Broker, o Options, edit func(*Subscription, *http.Request)) *rig {
	t.Helper()
	r := &rig{t: t, metrics: prometheus.NewRegistry(), edit: edit}
	r.allow(testGrant{name: "all"})
	o.Broker, o.Registerer = b, r.metrics
	o.Logger = slog.New(slog.DiscardHandler)
	r.hub = New(o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.hub.Run(ctx) }()
	r.server = httptest.NewUnstartedServer(http.HandlerFunc(r.handle))
	r.server.Config.Protocols = new(http.Protocols)
	r.server.Config.Protocols.SetHTTP1(true)
	r.server.Config.Protocols.SetUnencryptedHTTP2(true)
	r.server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		_ = c.(*net.TCPConn).SetWriteBuffer(smallBuffer)
		return ctx
	}
	r.server.Start()
	r.client = &http.Client{Transport: &http.Transport{DialContext: dialSmall, MaxIdleConnsPerHost: -1}}
	r.stop = func() {
		cancel()
		assert.NoError(t, <-done)
		r.server.CloseClientConnections()
		r.server.Close()
		r.stop = func() {}
	}
	t.Cleanup(func() { r.stop() })
	return r
}

func (r *rig) allow(g Grant) {
	f := func() (Grant, error) { return g, nil }
	r.grant.Store(&f)
}

func (r *rig) refuse(err error) {
	f := func() (Grant, error) { return nil, err }
	r.grant.Store(&f)
}

func (r *rig) handle(w http.ResponseWriter, req *http.Request) {
	id := req.Header.Get("Last-Event-ID")
	sub := Subscription{
		Tenant: tenant.Default, Table: req.URL.Query().Get("table"),
		LastEventID: id, HasLastEventID: len(req.Header.Values("Last-Event-ID")) > 0 || req.URL.Query().Has("empty"),
		Grant: func() (Grant, error) { return (*r.grant.Load())() },
	}
	if at, err := time.Parse(time.RFC3339Nano, req.URL.Query().Get("since")); err == nil {
		sub.Since = at
	}
	if r.edit != nil {
		r.edit(&sub, req)
	}
	err := r.hub.Serve(w, req, sub)
	var refused *Error
	switch {
	case err == nil:
	case errors.As(err, &refused):
		status := map[string]int{CodePositionInvalid: 400, CodeTooManySubscribers: 429, CodeUnavailable: 503}[refused.Code]
		http.Error(w, refused.Code+": "+refused.Message, status)
	default:
		http.Error(w, err.Error(), http.StatusForbidden)
	}
}

// open follows table from lastID ("" for now); query is added to the URL.
func (r *rig) open(table, lastID, query string) *streamtest.Stream {
	r.t.Helper()
	s, err := r.tryOpen(table, lastID, query)
	require.NoError(r.t, err)
	r.t.Cleanup(s.Close)
	first, err := s.Next()
	require.NoError(r.t, err)
	require.Equal(r.t, []string{"connected"}, first.Comments)
	require.Equal(r.t, "2000", first.Retry)
	return s
}

func (r *rig) tryOpen(table, lastID, query string) (*streamtest.Stream, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	r.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.server.URL+"/?table="+table+query, nil)
	require.NoError(r.t, err)
	return streamtest.Open(r.client, req, lastID)
}

// refusal opens a stream that must be refused and returns the answer.
func (r *rig) refusal(table, lastID, query string) *streamtest.Refused {
	r.t.Helper()
	_, err := r.tryOpen(table, lastID, query)
	var refused *streamtest.Refused
	require.ErrorAs(r.t, err, &refused)
	return refused
}

// numberOf is the row's n.
func numberOf(f streamtest.Frame) (uint64, error) {
	row, err := f.Row()
	if err != nil {
		return 0, err
	}
	var v struct {
		N uint64 `json:"n"`
	}
	return v.N, json.Unmarshal(row.Row, &v)
}

func number(t testing.TB, f streamtest.Frame) uint64 {
	t.Helper()
	n, err := numberOf(f)
	require.NoError(t, err, "frame %+v", f)
	return n
}

// next reads count row events and returns their numbers.
func next(t testing.TB, s *streamtest.Stream, count int) []uint64 {
	t.Helper()
	var got []uint64
	for range count {
		f, err := s.NextEvent()
		require.NoError(t, err)
		got = append(got, number(t, f))
	}
	return got
}

// collect is next for a goroutine of its own: what is missing is not there.
func collect(s *streamtest.Stream, count int) []uint64 {
	var got []uint64
	for range count {
		f, err := s.NextEvent()
		if err != nil {
			return got
		}
		n, err := numberOf(f)
		if err != nil {
			return got
		}
		got = append(got, n)
	}
	return got
}

func sequence(from, to uint64) []uint64 {
	var out []uint64
	for n := from; n <= to; n++ {
		out = append(out, n)
	}
	return out
}

func (r *rig) counter(c prometheus.Collector) float64 { return testutil.ToFloat64(c) }

// eventually polls until ok holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, patience, time.Millisecond, what)
}

// smallBuffer is what the kernel may hold of a connection, so that a reader
// that stops is felt at once.
const smallBuffer = 64 << 10

func dialSmall(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err == nil {
		err = c.(*net.TCPConn).SetReadBuffer(smallBuffer)
	}
	return c, err
}
