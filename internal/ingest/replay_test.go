package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
)

// parkedRig is a rig with n rows of pages parked, and a ClickHouse that takes
// rows from now on.
func parkedRig(t *testing.T, n int) (*rig, *sink) {
	t.Helper()
	var refuses atomic.Bool
	refuses.Store(true)
	s := &sink{name: "ch", fail: func(insert) error {
		if refuses.Load() {
			return exception(clickhouse.ClassRejected, 60, "no such table")
		}
		return nil
	}}
	r := newRig(t).open()
	for from := 0; from < n; from += 500 {
		r.send(request(pages(), record.NDJSON, lines(from, min(n, from+500))))
	}
	r.start(func(o *ingest.WorkerOptions) { o.Pool = pool(s) })
	r.settled(birch)
	require.Len(t, r.letters(birch, "pages"), n)
	refuses.Store(false)
	return r, s
}

func (r *rig) replay(more func(*ingest.Replay), o ingest.ReplayerOptions) (ingest.Replayed, error) {
	r.t.Helper()
	store, err := r.broker.DeadLetters(birch)
	require.NoError(r.t, err)
	q := ingest.Replay{Topic: mq.Topic{Tenant: birch, Table: "pages"}, Store: store, Table: pages(), Limit: 100_000}
	if more != nil {
		more(&q)
	}
	if o.Broker == nil {
		o.Broker = r.broker
	}
	return ingest.NewReplayer(o).Replay(r.t.Context(), q)
}

func TestReplayPutsRowsBack(t *testing.T) {
	r, s := parkedRig(t, 2600)
	before := time.Now()
	received := r.letters(birch, "pages")[0].Received
	result, err := r.replay(nil, ingest.ReplayerOptions{})
	require.NoError(t, err)
	assert.Equal(t, ingest.Replayed{Replayed: 2600}, result)
	r.settled(birch)
	assertSameRows(t, wantIDs(0, 2600), s.rows())
	assert.Empty(t, r.letters(birch, "pages"))
	tail, err := r.broker.Tail(t.Context(), birch)
	require.NoError(t, err)
	chunks, late := 0, 0
	err = r.broker.Replay(t.Context(), mq.Topic{Tenant: birch, Table: "pages"}, mq.Position{}, tail, func(c mq.Chunk, _ mq.Position) error {
		chunks++
		if c.Received.After(before) || c.Received.Before(received) {
			late++
		}
		return nil
	})
	require.NoError(t, err)
	assert.Zero(t, late, "rows keep the time they came at")
	assert.Less(t, chunks, 6+60, "rows go back in chunks")
}

// mortal is a store of a process that dies before a discard.
type mortal struct {
	mq.DeadLetterStore
	left int
}

var errDied = errors.New("died")

func (m *mortal) Discard(ctx context.Context, ids ...string) (int, error) {
	if m.left--; m.left < 0 {
		return 0, errDied
	}
	return m.DeadLetterStore.Discard(ctx, ids...)
}

func (m *mortal) DiscardThrough(ctx context.Context, table, id string) (int, error) {
	if m.left--; m.left < 0 {
		return 0, errDied
	}
	return m.DeadLetterStore.DiscardThrough(ctx, table, id)
}

// What was put back before a crash is recognised when it comes again, whatever
// left the letters before it.
func TestReplayAgainAfterACrash(t *testing.T) {
	r, s := parkedRig(t, 2600)
	replayed := 0
	for _, discards := range []int{0, 2, 0, 1} {
		result, err := r.replay(func(q *ingest.Replay) { q.Store = &mortal{q.Store, discards} }, ingest.ReplayerOptions{})
		require.ErrorIs(t, err, errDied)
		replayed += result.Replayed
		assert.Len(t, r.letters(birch, "pages"), 2600-replayed)
	}
	result, err := r.replay(nil, ingest.ReplayerOptions{})
	require.NoError(t, err)
	assert.Equal(t, 2600, replayed+result.Replayed)
	r.settled(birch)
	assertSameRows(t, wantIDs(0, 2600), s.rows())
}

// fullAfter is a queue that has room for some chunks.
type fullAfter struct {
	ingest.Publisher
	left int
}

func (q *fullAfter) Publish(ctx context.Context, c mq.Chunk) (mq.Position, error) {
	if q.left--; q.left < 0 {
		return mq.Position{}, fmt.Errorf("no room: %w", mq.ErrFull)
	}
	return q.Publisher.Publish(ctx, c)
}

func TestReplayIntoAQueueThatIsFull(t *testing.T) {
	r, s := parkedRig(t, 2600)
	result, err := r.replay(nil, ingest.ReplayerOptions{Broker: &fullAfter{r.broker, 4}})
	var whole *ingest.Error
	require.ErrorAs(t, err, &whole)
	assert.Equal(t, ingest.CodeQueueFull, whole.Code)
	assert.Positive(t, whole.RetryAfter)
	assert.Positive(t, result.Replayed)
	assert.Len(t, r.letters(birch, "pages"), 2600-result.Replayed)
	assert.NotEmpty(t, result.Cursor)
	rest, err := r.replay(func(q *ingest.Replay) { q.Cursor = result.Cursor }, ingest.ReplayerOptions{})
	require.NoError(t, err)
	assert.Equal(t, 2600, result.Replayed+rest.Replayed)
	r.settled(birch)
	assertSameRows(t, wantIDs(0, 2600), s.rows())
}

// leaver is a caller that leaves after some publishes.
type leaver struct {
	ingest.Publisher
	left  int
	leave context.CancelFunc
}

func (l *leaver) Publish(ctx context.Context, c mq.Chunk) (mq.Position, error) {
	if l.left--; l.left == 0 {
		l.leave()
	}
	return l.Publisher.Publish(ctx, c)
}

func TestReplayWhoseCallerLeaves(t *testing.T) {
	r, s := parkedRig(t, 2600)
	ctx, cancel := context.WithCancel(t.Context())
	store, err := r.broker.DeadLetters(birch)
	require.NoError(t, err)
	replayer := ingest.NewReplayer(ingest.ReplayerOptions{Broker: &leaver{r.broker, 2, cancel}})
	q := ingest.Replay{Topic: mq.Topic{Tenant: birch, Table: "pages"}, Store: store, Table: pages(), Limit: 100_000}
	result, err := replayer.Replay(ctx, q)
	require.ErrorIs(t, err, context.Canceled)
	assert.Positive(t, result.Replayed)
	assert.Less(t, result.Replayed, 2600)
	assert.Len(t, r.letters(birch, "pages"), 2600-result.Replayed, "what is in the queue has left the letters")
	rest, err := replayer.Replay(t.Context(), q)
	require.NoError(t, err)
	assert.Equal(t, 2600, result.Replayed+rest.Replayed)
	r.settled(birch)
	assertSameRows(t, wantIDs(0, 2600), s.rows())
}

func TestReplayIsBoundedByItsLimit(t *testing.T) {
	r, _ := parkedRig(t, 1200)
	cursor, total, calls := "", 0, 0
	for {
		result, err := r.replay(func(q *ingest.Replay) { q.Limit, q.Cursor, q.DryRun = 500, cursor, true }, ingest.ReplayerOptions{})
		require.NoError(t, err)
		require.LessOrEqual(t, result.Replayed, 500)
		total, calls = total+result.Replayed, calls+1
		if cursor = result.Cursor; cursor == "" {
			break
		}
	}
	assert.Equal(t, 1200, total)
	assert.Equal(t, 3, calls)
	// A call whose time is up ends behind the page it is at.
	clock := time.Now()
	result, err := r.replay(nil, ingest.ReplayerOptions{Now: func() time.Time {
		clock = clock.Add(25 * time.Second)
		return clock
	}})
	require.NoError(t, err)
	assert.NotEmpty(t, result.Cursor)
	assert.LessOrEqual(t, result.Replayed, 1000)
	_, err = r.replay(func(q *ingest.Replay) { q.Cursor = "nonsense" }, ingest.ReplayerOptions{})
	require.ErrorIs(t, err, mq.ErrBadCursor)
}

func TestReplayOfLettersThatAreNoRows(t *testing.T) {
	r := newRig(t).open()
	columns := `[{"name":"event_id","type":"String"},{"name":"page","type":"String"}]`
	letter := func(version, format, columns, row string) mq.DeadLetter {
		return mq.DeadLetter{
			Topic:  mq.Topic{Tenant: birch, Table: "pages"},
			Header: mq.Header{Version: version, Format: format, Columns: columns, Rows: 1, Received: time.Now()},
			Row:    []byte(row), Error: "e", Code: "c",
		}
	}
	require.NoError(t, r.broker.Park(t.Context(),
		letter("", "", "", "junk"),
		letter(mq.Version, mq.FormatRowBinary, columns, "\x01a\x01/"),
		letter(mq.Version, mq.FormatRowBinary, columns, "\x05a"),
		letter(mq.Version, mq.FormatRowBinary, `[`, "\x01a\x01/"),
		letter(mq.Version, mq.FormatJSONCompactEachRow, columns, `["b","/"]`+"\n"),
		letter(mq.Version, mq.FormatJSONCompactEachRow, columns, `["b"`),
		letter(mq.Version, "Parquet", columns, "x"),
		letter("9", mq.FormatRowBinary, columns, "\x01a\x01/"),
	))
	result, err := r.replay(nil, ingest.ReplayerOptions{})
	require.NoError(t, err)
	assert.Equal(t, 2, result.Replayed)
	assert.Equal(t, 6, result.Failed)
	var codes []string
	for _, f := range result.Failures {
		codes = append(codes, f.Code)
		assert.NotEmpty(t, f.Message)
	}
	assert.Equal(t, []string{
		ingest.CodeLetterUnreadable, record.CodeMalformed, ingest.CodeLetterUnreadable,
		ingest.CodeLetterUnreadable, ingest.CodeLetterUnreadable, ingest.CodeLetterUnreadable,
	}, codes)
	assert.Len(t, r.letters(birch, "pages"), 6)
	s := &sink{name: "ch"}
	r.start(func(o *ingest.WorkerOptions) { o.Pool = pool(s) })
	r.settled(birch)
	assertSameRows(t, []string{`{"event_id":"a","page":"/"}`, `{"event_id":"b","page":"/"}`}, s.rows())
}

func TestLettersAreHeldByOneAtATime(t *testing.T) {
	r := ingest.NewReplayer(ingest.ReplayerOptions{})
	topic := mq.Topic{Tenant: birch, Table: "pages"}
	release, err := r.Hold(topic)
	require.NoError(t, err)
	_, err = r.Hold(topic)
	require.ErrorIs(t, err, ingest.ErrLettersBusy)
	_, err = r.Replay(t.Context(), ingest.Replay{Topic: topic})
	require.ErrorIs(t, err, ingest.ErrLettersBusy)
	other, err := r.Hold(mq.Topic{Tenant: birch, Table: "others"})
	require.NoError(t, err)
	other()
	release()
	release, err = r.Hold(topic)
	require.NoError(t, err)
	release()
}
