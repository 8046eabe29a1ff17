package ingest_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/dedupe"
	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/ingest/ingesttest"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/schema"
)

func TestDedupeAcrossRequests(t *testing.T) {
	r := newDedupeRig(t)
	r.ok(`{"event_id":"a","page":"/1"}`, 1, 0, 0)
	result := r.ok(`{"event_id":"a","page":"/2"}`, 0, 1, 0)
	assert.Equal(t, []ingest.RecordResult{{Index: 1, Duplicate: true}}, result.Results)
	assert.Equal(t, []string{`{"event_id":"a","page":"/1"}`}, r.stored())
}

func TestRepeatInsideOneBatch(t *testing.T) {
	r := newDedupeRig(t)
	result := r.ok(`[{"event_id":"y1","page":"/1"},{"event_id":"y1","page":"/2"},{"event_id":"y2","page":"/3"}]`, 2, 1, 0)
	assert.Equal(t, []ingest.RecordResult{{Index: 2, Duplicate: true}}, result.Results)
	assert.Equal(t, []string{`{"event_id":"y1","page":"/1"}`, `{"event_id":"y2","page":"/3"}`}, r.stored())
}

func TestDedupeRepeatOfARefusedRecordIsTheFirst(t *testing.T) {
	r := newDedupeRig(t)
	r.ok(`[{"event_id":"a","page":"/1","n":"many"},{"event_id":"a","page":"/2"}]`, 1, 0, 1)
	assert.Equal(t, []string{`{"event_id":"a","page":"/2"}`}, r.stored())
}

func TestDedupeRepeatAcrossWindowsAndColumnSets(t *testing.T) {
	r := newDedupeRig(t)
	body := ingesttest.Lines(0, 600) + `{"event_id":"7","page":"/","n":1}` + "\n" + ingesttest.Line("599") + "\n"
	result, err := r.Ingest(t.Context(), r.request(record.NDJSON, body))
	require.NoError(t, err)
	assert.Equal(t, []int{600, 2, 0}, []int{result.Succeeded, result.Duplicates, result.Failed})
	assert.Equal(t, ingesttest.Rows(0, 600), r.stored())
}

func TestQueueRefusesThePublish(t *testing.T) {
	r := newDedupeRig(t)
	full := true
	r.queue.fail = func(int, mq.Chunk) error {
		if full {
			return mq.ErrFull
		}
		return nil
	}
	_, err := r.send(`{"event_id":"x1","page":"/a"}`)
	r.failed(err, ingest.CodeQueueFull, 30*time.Second)
	result, err := r.send(`[{"event_id":"x1","page":"/a"},{"event_id":"x1","page":"/a"}]`)
	r.failed(err, ingest.CodeQueueFull, 30*time.Second)
	assert.Equal(t, 2, result.Failed, "a repeat of a record that failed has failed")
	full = false
	r.ok(`{"event_id":"x1","page":"/a"}`, 1, 0, 0)
	r.ok(`{"event_id":"x1","page":"/a"}`, 0, 1, 0)
	assert.Len(t, r.stored(), 1)
}

func TestNullAsTheID(t *testing.T) {
	r := newDedupeRig(t)
	columns := []record.Column{{Name: "event_id", Type: "Nullable(String)"}, {Name: "page", Type: "String"}}
	table := &schema.Table{Name: "pages", Columns: columns, Record: record.Compile("pages", columns, time.UTC)}
	send := func(body string, required bool) ingest.Result {
		q := ingesttest.Request(table, record.JSON, body)
		q.IDs = &ingest.IDs{Field: "event_id", Required: required}
		result, err := r.Ingest(t.Context(), q)
		require.NoError(t, err)
		return result
	}
	for _, body := range []string{
		`{"event_id":null,"page":"/1"}`, `{"event_id":null,"page":"/2"}`, `{"page":"/3"}`,
		`{"event_id":"","page":"/4"}`, `{"event_id":"","page":"/5"}`,
	} {
		assert.Equal(t, 1, send(body, false).Succeeded, body)
		refused := send(body, true)
		require.Equal(t, 1, refused.Failed, body)
		assert.Equal(t, record.CodeMissingID, refused.Results[0].Code)
		assert.Equal(t, "event_id", refused.Results[0].Column)
	}
	assert.Len(t, r.stored(), 5)
	noID := testutil.ToFloat64(collector(t, r.reg, "wavehouse_dedupe_records_without_id_total"))
	assert.InDelta(t, 5, noID, 0)
}

// collector finds a metric's only value.
func collector(t *testing.T, reg *prometheus.Registry, name string) prometheus.Collector {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "found"})
			g.Set(f.GetMetric()[0].GetCounter().GetValue())
			return g
		}
	}
	t.Fatalf("there is no metric %s", name)
	return nil
}

func TestDedupeRequiredIDThatIsNoColumn(t *testing.T) {
	r := newDedupeRig(t)
	q := r.request(record.JSON, `{"event_id":"a","page":"/"}`)
	q.IDs = &ingest.IDs{Field: "other", Required: true}
	result, err := r.Ingest(t.Context(), q)
	require.NoError(t, err)
	require.Equal(t, record.CodeMissingID, result.Results[0].Code)
	q.IDs.Required = false
	for range 2 {
		result, err = r.Ingest(t.Context(), q)
		require.NoError(t, err)
		require.Equal(t, 1, result.Succeeded)
	}
}

func TestNumbersAsIDs(t *testing.T) {
	r := newDedupeRig(t)
	r.ok(`[{"event_id":9007199254740992,"page":"/"},{"event_id":9007199254740993,"page":"/"}]`, 2, 0, 0)
	r.ok(`{"event_id":1,"page":"/"}`, 1, 0, 0)
	r.ok(`{"event_id":"1","page":"/"}`, 0, 1, 0)
	r.ok(`{"event_id":1.0,"page":"/"}`, 1, 0, 0)
	result, err := r.Ingest(t.Context(), r.request(record.CSV, "event_id,page\n1,/\n\"1\",/\n1.0,/\n1.00,/\n"))
	require.NoError(t, err)
	assert.Equal(t, []int{1, 3}, []int{result.Succeeded, result.Duplicates}, "in a String the text is the id")
}

// One value of the column's type is one id, however it is written.
func TestDedupeSpellingsOfOneValue(t *testing.T) {
	for _, c := range []struct {
		columnType  string
		same, other []string
	}{
		{"UInt64", []string{`5`, `"5"`}, []string{`9007199254740992`, `9007199254740993`}},
		{"UUID", []string{`"0189d7a2-5c1e-7c3a-9d2b-000000000001"`, `"0189D7A25C1E7C3A9D2B000000000001"`}, []string{`"0189d7a2-5c1e-7c3a-9d2b-000000000002"`}},
		{"Nullable(UUID)", []string{`"0189d7a2-5c1e-7c3a-9d2b-000000000001"`, `"0189D7A25C1E7C3A9D2B000000000001"`}, nil},
		{"Decimal(10, 2)", []string{`1.5`, `"1.50"`, `1.5e0`}, []string{`1.51`}},
		{"DateTime64(3, 'UTC')", []string{`"2026-01-02T03:04:05Z"`, `"2026-01-02 03:04:05.000"`, `"2026-01-02T04:04:05+01:00"`, `1767323045`}, []string{`1767323045001`}},
		{"LowCardinality(String)", []string{`"a"`, `"\u0061"`}, []string{`"A"`, `"a "`}},
		{"Enum8('a' = 1, 'b' = 2)", []string{`"a"`, `1`}, []string{`2`}},
		{"JSON", []string{`{"a":1}`, `{"a":1}`}, []string{`{"a":2}`}},
	} {
		t.Run(c.columnType, func(t *testing.T) {
			r := newDedupeRig(t)
			columns := []record.Column{{Name: "id", Type: c.columnType}}
			table := &schema.Table{Name: "t", Columns: columns, Record: record.Compile("t", columns, time.UTC)}
			send := func(value string) ingest.Result {
				q := ingesttest.Request(table, record.JSON, `{"id":`+value+`}`)
				q.IDs = &ingest.IDs{Field: "id"}
				result, err := r.Ingest(t.Context(), q)
				require.NoError(t, err)
				require.Zero(t, result.Failed, "%s: %v", value, result.Results)
				return result
			}
			for i, value := range c.same {
				assert.Equal(t, i > 0, send(value).Duplicates == 1, value)
			}
			for _, value := range c.other {
				assert.Equal(t, 1, send(value).Succeeded, value)
			}
		})
	}
}

func TestFiftyCopiesAtOnce(t *testing.T) {
	r := newDedupeRig(t)
	var all []<-chan outcome
	for range 50 {
		all = append(all, later(t.Context(), r.Gate, r.request(record.JSON, ingesttest.Line("a"))))
	}
	accepted := 0
	for _, done := range all {
		o := <-done
		if o.err != nil {
			r.failed(o.err, ingest.CodeInFlight, testLease)
			continue
		}
		accepted += o.result.Succeeded
	}
	assert.Equal(t, 1, accepted)
	assert.Len(t, r.stored(), 1)
	r.ok(ingesttest.Line("a"), 0, 1, 0)
}

func TestDedupeWaitsForTheOtherRequest(t *testing.T) {
	r := newDedupeRig(t)
	r.Gate = ingest.NewGate(ingest.GateOptions{Broker: r.queue, Dedupe: r.store, Lease: testLease, InFlightWait: time.Minute})
	r.queue.hold = make(chan struct{})
	first := later(t.Context(), r.Gate, r.request(record.JSON, ingesttest.Line("a")))
	waitFor(t, "the first publish", func() bool { return r.queue.count() == 1 })
	// The second has one id of the first's, and publishes its own at once.
	second := later(t.Context(), r.Gate, r.request(record.JSON, array(0, 1)[:len(array(0, 1))-1]+","+ingesttest.Line("a")+"]"))
	r.queue.hold <- struct{}{}
	require.NoError(t, (<-first).err)
	r.queue.hold <- struct{}{}
	o := <-second
	require.NoError(t, o.err)
	assert.Equal(t, []int{1, 1}, []int{o.result.Succeeded, o.result.Duplicates})
}

func TestDedupeInFlightIsAnswered(t *testing.T) {
	r := newDedupeRig(t)
	_, err := r.store.Reserve(t.Context(), dedupe.Scope{Tenant: birch, Table: "pages"}, dedupe.NewOwner(), []string{"r\x01a"})
	require.NoError(t, err)
	result, err := r.send(`[` + ingesttest.Line("a") + `,` + ingesttest.Line("b") + `]`)
	r.failed(err, ingest.CodeInFlight, testLease)
	assert.Equal(t, []int{1, 1}, []int{result.Succeeded, result.Failed}, "what is free is stored")
	r.clock.Pass(testLease + time.Second)
	r.ok(`[`+ingesttest.Line("a")+`,`+ingesttest.Line("b")+`]`, 1, 1, 0)
}

// A store that is paid for each question is asked as rarely as it says.
func TestDedupeAsksAgainWhenTheStoreSaysSo(t *testing.T) {
	r := newDedupeRig(t)
	store := &dear{Reserver: r.store}
	r.Gate = ingest.NewGate(ingest.GateOptions{Broker: r.queue, Dedupe: store, Lease: testLease, InFlightWait: time.Second})
	_, err := r.store.Reserve(t.Context(), dedupe.Scope{Tenant: birch, Table: "pages"}, dedupe.NewOwner(), []string{"r\x01a"})
	require.NoError(t, err)
	_, err = r.send(ingesttest.Line("a"))
	r.failed(err, ingest.CodeInFlight, testLease)
	assert.EqualValues(t, 2, store.asked.Load(), "once, and once more when the time is up")
}

// dear is a store that is rather not asked.
type dear struct {
	dedupe.Reserver
	asked atomic.Int32
}

func (d *dear) Reserve(ctx context.Context, s dedupe.Scope, o dedupe.Owner, ids []string) ([]dedupe.Reservation, error) {
	d.asked.Add(1)
	found, err := d.Reserver.Reserve(ctx, s, o, ids)
	for i := range found {
		if found[i].State == dedupe.InFlight {
			found[i].RetryAfter = time.Minute
		}
	}
	return found, err
}

func TestDedupeUnknownOutcome(t *testing.T) {
	r := newDedupeRig(t)
	r.queue.forget = func(n int) bool { return n == 1 }
	body := `[` + ingesttest.Line("a") + `,` + ingesttest.Line("b") + `]`
	_, err := r.send(body)
	r.failed(err, ingest.CodeOutcomeUnknown, testLease)
	_, err = r.send(body)
	r.failed(err, ingest.CodeInFlight, testLease)
	r.clock.Pass(testLease + time.Second)
	r.ok(body, 2, 0, 0)
	assert.Len(t, r.stored(), 2, "the queue knew the message again")
	r.ok(body, 0, 2, 0)
}

// A window whose second message has an unknown outcome: the first is
// committed, the third was never sent and may be sent at once.
func TestDedupeUnknownOutcomeInTheMiddle(t *testing.T) {
	r := newDedupeRig(t)
	r.queue.forget = func(n int) bool { return n == 2 }
	body := `[{"event_id":"a","page":"/"},{"event_id":"b","page":"/","n":1},{"event_id":"c","page":"/","org":"x"}]`
	result, err := r.send(body)
	r.failed(err, ingest.CodeOutcomeUnknown, testLease)
	assert.Equal(t, []int{1, 2}, []int{result.Succeeded, result.Failed})
	r.ok(`{"event_id":"c","page":"/","org":"x"}`, 1, 0, 0)
	r.ok(`{"event_id":"a","page":"/"}`, 0, 1, 0)
	r.clock.Pass(testLease + time.Second)
	r.ok(body, 1, 2, 0)
	assert.Len(t, r.stored(), 3)
}

// A process that dies between publish and commit leaves a reservation behind.
func TestDedupeCrashBetweenPublishAndCommit(t *testing.T) {
	r := newDedupeRig(t)
	crashed := ingest.NewGate(ingest.GateOptions{Broker: r.queue, Dedupe: noCommit{r.store}, Lease: testLease})
	result, err := crashed.Ingest(t.Context(), r.request(record.JSON, ingesttest.Line("a")))
	require.NoError(t, err)
	require.Equal(t, 1, result.Succeeded, "what is durable is answered so")
	_, err = r.send(ingesttest.Line("a"))
	r.failed(err, ingest.CodeInFlight, testLease)
	r.clock.Pass(testLease + time.Second)
	r.ok(ingesttest.Line("a"), 1, 0, 0)
	assert.Len(t, r.stored(), 1)
}

type noCommit struct{ dedupe.Reserver }

func (noCommit) Commit(context.Context, dedupe.Scope, dedupe.Owner, []dedupe.Entry, time.Duration) (int, error) {
	return 0, dedupe.ErrUnavailable
}

func TestDedupeRecordsWithoutIDsKeepTheirOwnMessages(t *testing.T) {
	r := newDedupeRig(t)
	columns := []record.Column{{Name: "event_id", Type: "String", DefaultKind: record.DefaultExpression}, {Name: "page", Type: "String"}}
	table := &schema.Table{Name: "pages", Columns: columns, Record: record.Compile("pages", columns, time.UTC)}
	q := ingesttest.Request(table, record.JSON, `[{"event_id":"a","page":"/1"},{"event_id":"","page":"/2"},{"page":"/3"}]`)
	q.IDs = &ingest.IDs{Field: "event_id"}
	for n := range 2 {
		result, err := r.Ingest(t.Context(), q)
		require.NoError(t, err)
		require.Equal(t, []int{3 - n, n}, []int{result.Succeeded, result.Duplicates})
	}
	for _, c := range r.queue.stored {
		assert.Equal(t, strings.Contains(string(c.Body), "/1"), c.ID != "", "a message whose id does not cover a row would drop it")
	}
	assert.Len(t, r.stored(), 5)
}

func TestShortestRetention(t *testing.T) {
	r := newDedupeRig(t)
	q := r.request(record.JSON, ingesttest.Line("a"))
	q.IDs.Retention = 2 * time.Minute
	r.queue.seen = nil
	for _, want := range []int{1, 0} {
		result, err := r.Ingest(t.Context(), q)
		require.NoError(t, err)
		require.Equal(t, want, result.Succeeded)
	}
	r.clock.Pass(2*time.Minute + time.Second)
	r.queue.seen = nil // its window is shorter than any retention
	result, err := r.Ingest(t.Context(), q)
	require.NoError(t, err)
	require.Equal(t, 1, result.Succeeded)
	assert.Len(t, r.stored(), 2)
}

func TestDedupeStoreDownFailsClosed(t *testing.T) {
	rig := newDedupeRig(t)
	require.NoError(t, rig.store.Close(t.Context()))
	q, g := rig.queue, rig.Gate
	r := ingesttest.Request(ingesttest.Pages(), record.JSON, ingesttest.Line("a"))
	_, err := g.Ingest(t.Context(), r)
	require.NoError(t, err, "nothing is asked where ids are not remembered")
	for _, change := range []func(*ingest.Request){
		func(r *ingest.Request) { r.IDs = &ingest.IDs{Field: "event_id"} },
		func(r *ingest.Request) { r.Key = "k" },
	} {
		with := r
		change(&with)
		_, err = g.Ingest(t.Context(), with)
		var whole *ingest.Error
		require.ErrorAs(t, err, &whole)
		assert.Equal(t, ingest.CodeDedupeDown, whole.Code)
		assert.Equal(t, 5*time.Second, whole.RetryAfter)
		assert.ErrorIs(t, err, dedupe.ErrUnavailable)
	}
	assert.Len(t, q.stored, 1)
}

func TestDedupeCallerThatIsGoneHoldsNoReservation(t *testing.T) {
	r := newDedupeRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := r.Ingest(ctx, r.request(record.JSON, ingesttest.Line("a")))
	var whole *ingest.Error
	require.ErrorAs(t, err, &whole)
	require.Equal(t, ingest.CodeCanceled, whole.Code)
	r.ok(ingesttest.Line("a"), 1, 0, 0)
}

func TestDedupePlacesAndResults(t *testing.T) {
	r := newDedupeRig(t)
	r.ok(ingesttest.Line("b"), 1, 0, 0)
	q := r.request(record.JSON, `[`+ingesttest.Line("a")+`,`+ingesttest.Line("b")+`,`+ingesttest.Line("c")+`]`)
	q.AllResults, q.Places = true, true
	result, err := r.Ingest(t.Context(), q)
	require.NoError(t, err)
	assert.Equal(t, []ingest.RecordResult{{Index: 1, OK: true}, {Index: 2, Duplicate: true}, {Index: 3, OK: true}}, result.Results)
	chunk := mq.NewPosition(1, 2)
	assert.Equal(t, []ingest.Place{{Chunk: chunk, Row: 0, First: 1, Count: 1}, {Chunk: chunk, Row: 1, First: 3, Count: 1}}, result.Places)
}

// TestDedupeUnderFaults retries every request until it is answered: each id is
// stored once.
func TestDedupeUnderFaults(t *testing.T) {
	r := newDedupeRig(t)
	dice := rand.New(rand.NewPCG(7, 7))
	r.queue.fail = func(int, mq.Chunk) error {
		if dice.IntN(4) == 0 {
			return []error{mq.ErrFull, mq.ErrUnavailable}[dice.IntN(2)]
		}
		return nil
	}
	r.queue.forget = func(int) bool { return dice.IntN(4) == 0 }
	for n := range 40 {
		from := 3 * n
		body := ingesttest.Lines(from, from+5) // overlaps the next one by two
		for tries := 0; ; tries++ {
			require.Less(t, tries, 200)
			_, err := r.Ingest(t.Context(), r.request(record.NDJSON, body))
			if err == nil {
				break
			}
			var whole *ingest.Error
			require.True(t, errors.As(err, &whole) && whole.Retryable)
			r.clock.Pass(whole.RetryAfter + time.Second)
		}
	}
	assert.ElementsMatch(t, ingesttest.Rows(0, 122), r.stored())
}
