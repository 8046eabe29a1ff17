package insert_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/dedupe"
	"github.com/wavehouse/wavehouse/internal/dedupe/pebble"
	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/ingest/ingesttest"
	"github.com/wavehouse/wavehouse/internal/insert"
	"github.com/wavehouse/wavehouse/internal/record"
)

// ids is a real store of ids that can be away, and whose commits can be lost.
type ids struct {
	*pebble.Store

	mu          sync.Mutex
	away        bool
	loseCommits int // so many commits happen and are said to have failed
	failCommits int // so many commits do not happen
	// lapses says that the reservations of the next commit lapse, and another
	// commits the ids before it.
	lapses bool
}

func newIDs(t *testing.T) *ids {
	s := &ids{Store: pebble.New(pebble.Options{
		Dir: filepath.Join(t.TempDir(), "pebble"), Lease: time.Minute, Logger: slog.New(slog.DiscardHandler), Timeout: time.Minute,
	})}
	t.Cleanup(func() { assert.NoError(t, s.Close(context.Background())) })
	return s
}

func (s *ids) set(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

var errAway = fmt.Errorf("%w: it is away", dedupe.ErrUnavailable)

func (s *ids) Reserve(ctx context.Context, scope dedupe.Scope, o dedupe.Owner, all []string) ([]dedupe.Reservation, error) {
	s.mu.Lock()
	away := s.away
	s.mu.Unlock()
	if away {
		return nil, errAway
	}
	return s.Store.Reserve(ctx, scope, o, all)
}

func (s *ids) Commit(ctx context.Context, scope dedupe.Scope, o dedupe.Owner, entries []dedupe.Entry, retention time.Duration) (int, error) {
	s.mu.Lock()
	lose, fail, lapsed := s.loseCommits > 0, s.failCommits > 0, s.lapses
	s.lapses = false
	s.loseCommits, s.failCommits = max(0, s.loseCommits-1), max(0, s.failCommits-1)
	s.mu.Unlock()
	if fail {
		return 0, errAway
	}
	if lapsed {
		if err := s.giveTo(ctx, dedupe.NewOwner(), scope, o, entries); err != nil {
			return 0, err
		}
	}
	n, err := s.Store.Commit(ctx, scope, o, entries, retention)
	if lose {
		return 0, errAway
	}
	return n, err
}

// giveTo has another owner commit ids that one has reserved.
func (s *ids) giveTo(ctx context.Context, other dedupe.Owner, scope dedupe.Scope, o dedupe.Owner, entries []dedupe.Entry) error {
	var all []string
	var theirs []dedupe.Entry
	for _, e := range entries {
		all, theirs = append(all, e.ID), append(theirs, dedupe.Entry{ID: e.ID})
	}
	if err := s.Release(ctx, scope, o, all); err != nil {
		return err
	}
	if _, err := s.Store.Reserve(ctx, scope, other, all); err != nil {
		return err
	}
	_, err := s.Store.Commit(ctx, scope, other, theirs, 0)
	return err
}

// deferTo opens a rig whose gate defers to a store.
func deferTo(t *testing.T, store *ids) *rig {
	r := newRig(t).open()
	r.gate = ingest.NewGate(ingest.GateOptions{Broker: r.broker, Dedupe: store, Lease: time.Minute, InFlightWait: time.Millisecond})
	return r
}

func claiming(s *sink, store *ids) func(*insert.WorkerOptions) {
	return func(o *insert.WorkerOptions) { o.Pool, o.Dedupe = pool(s), store }
}

// post sends records by their ids; "" has none.
func (r *rig) post(page string, all ...string) ingest.Result {
	r.t.Helper()
	body := "["
	for n, id := range all {
		if n > 0 {
			body += ","
		}
		body += fmt.Sprintf(`{"event_id":%q,"page":%q}`, id, page)
	}
	q := ingesttest.Request(ingesttest.Pages(), record.JSON, body+"]")
	q.IDs = &ingest.IDs{Field: "event_id", Defer: true}
	result, err := r.gate.Ingest(r.t.Context(), q)
	require.NoError(r.t, err)
	return result
}

func rows(page string, all ...string) []string {
	var out []string
	for _, id := range all {
		out = append(out, fmt.Sprintf(`{"event_id":%q,"page":%q}`, id, page))
	}
	return out
}

// Records that were accepted while the store was away are written once it is back:
// each id once, whoever has it, in the table's order.
func TestDeferredRecordsAreClaimedBeforeTheyAreWritten(t *testing.T) {
	t.Parallel()
	store, s := newIDs(t), &sink{}
	r := deferTo(t, store)
	r.post("/before", "a", "b")
	store.set(true)
	r.post("/away", "b", "c", "d")
	r.post("/again", "d", "e")
	r.post("/without", "")
	r.start(claiming(s, store))
	waitFor(t, "a claim to fail", func() bool { return r.worker.Status().TablesWaiting > 0 })
	for _, row := range s.rows() {
		require.NotContains(t, row, "/away")
	}
	store.set(false)
	r.settled(birch)
	require.Equal(t, slices.Concat(rows("/before", "a", "b"), rows("/away", "c", "d"), rows("/again", "e"), rows("/without", "")), s.rows())
	assert.Zero(t, r.worker.Status().TablesWaiting)
	require.Equal(t, 4, r.post("/late", "b", "c", "d", "e").Duplicates, "they are remembered")
}

// A record that was deferred and is sent again once the store is back: the queue
// knows the message, and its id is the first one's.
func TestADeferredRecordThatIsSentAgainIsNotLost(t *testing.T) {
	t.Parallel()
	store, s := newIDs(t), &sink{}
	r := deferTo(t, store)
	store.set(true)
	require.Equal(t, 1, r.post("/", "a").Succeeded)
	store.set(false)
	require.Equal(t, 1, r.post("/", "a").Succeeded)
	require.Equal(t, 1, r.post("/", "a").Duplicates)
	r.start(claiming(s, store))
	r.settled(birch)
	require.Equal(t, rows("/", "a"), s.rows())
}

// A chunk that comes again knows the ids that it has claimed, whatever became of the
// answer.
func TestAChunkThatComesAgainIsNotItsOwnDuplicate(t *testing.T) {
	t.Parallel()
	store := newIDs(t)
	for name, spoil := range map[string]func(){
		"the commit is not made":      func() { store.failCommits = 3 },
		"the commit's answer is lost": func() { store.loseCommits = 3 },
		"none":                        func() {},
	} {
		t.Run(name, func(t *testing.T) {
			away := &sink{fail: func(statement) error { return errors.New("connection refused") }}
			r := deferTo(t, store)
			store.set(true)
			r.post("/"+name, name+"1", name+"2")
			store.set(false)
			spoil()
			r.start(claiming(away, store))
			waitFor(t, "an INSERT to fail", func() bool { return r.worker.Status().PoolsWaiting > 0 })
			r.stop()
			s := &sink{}
			r.start(claiming(s, store))
			r.settled(birch)
			require.Equal(t, rows("/"+name, name+"1", name+"2"), s.rows())
		})
	}
}

// An id that another request is at is waited for: its record is written by one.
func TestADeferredRecordWaitsForWhoIsAtItsId(t *testing.T) {
	t.Parallel()
	store, s := newIDs(t), &sink{}
	r := deferTo(t, store)
	scope, other := dedupe.Scope{Tenant: birch, Table: "pages"}, dedupe.NewOwner()
	keys := []string{dedupe.RecordID(nil, []byte("\x06stored")), dedupe.RecordID(nil, []byte("\x08given up"))}
	_, err := store.Store.Reserve(t.Context(), scope, other, keys)
	require.NoError(t, err)
	store.set(true)
	r.post("/", "stored", "given up", "free")
	store.set(false)
	r.start(claiming(s, store))
	waitFor(t, "a claim to wait", func() bool { return r.worker.Status().TablesWaiting > 0 })
	require.Empty(t, s.rows())
	_, err = store.Store.Commit(t.Context(), scope, other, []dedupe.Entry{{ID: keys[0]}}, 0)
	require.NoError(t, err)
	require.NoError(t, store.Release(t.Context(), scope, other, keys[1:]))
	r.settled(birch)
	require.Equal(t, rows("/", "given up", "free"), s.rows())
}

// A reservation that lapsed before it was committed is another's, and so is the
// record.
func TestAReservationThatLapsedIsNotTakenForCommitted(t *testing.T) {
	t.Parallel()
	store, s := newIDs(t), &sink{}
	r := deferTo(t, store)
	store.set(true)
	r.post("/", "a", "b")
	r.post("/", "")
	store.set(false)
	store.lapses = true
	r.start(claiming(s, store))
	r.settled(birch)
	require.Equal(t, rows("/", ""), s.rows())
}

// Rows that are left out change nothing about the others: those that are refused
// are parked by their place in the chunk, those that have to wait go back whole.
func TestWhatIsLeftOutIsNotMissed(t *testing.T) {
	t.Parallel()
	store := newIDs(t)
	s := &sink{fail: func(i statement) error {
		if len(i.rows) > 1 || slices.Contains(i.rows, rows("/", "bad")[0]) {
			return &clickhouse.Error{Code: 469, Message: "a constraint", Status: 400}
		}
		return nil
	}}
	r := deferTo(t, store)
	r.post("/first", "seen")
	store.set(true)
	r.post("/", "good", "seen", "bad", "also good")
	store.set(false)
	r.start(claiming(s, store))
	r.settled(birch)
	require.ElementsMatch(t, slices.Concat(rows("/first", "seen"), rows("/", "good", "also good")), s.rows())
	letters := r.letters(birch, "pages")
	require.Len(t, letters, 1)
	assert.Equal(t, 2, letters[0].SourceRow)
	assert.Equal(t, rows("/", "bad")[0], letterRow(t, letters[0]))

	// All of a chunk are others'.
	store.set(true)
	r.post("/none", "good", "bad")
	store.set(false)
	r.settled(birch)
	require.Len(t, s.rows(), 3)
}
