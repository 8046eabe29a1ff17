package letters_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/ingest/ingesttest"
	"github.com/wavehouse/wavehouse/internal/letters"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/embedded"
	"github.com/wavehouse/wavehouse/internal/record"
)

const birch = ingesttest.Birch

var topic = mq.Topic{Tenant: birch, Table: "pages"}

const twoColumns = `[{"name":"event_id","type":"String"},{"name":"page","type":"String"}]`

// rig is a real queue with dead letters of pages.
type rig struct {
	t      *testing.T
	broker *embedded.Broker
	store  mq.DeadLetterStore
}

// parkedAt is when the rows of the letters were accepted.
var parkedAt = time.Now().Add(-time.Hour).UTC()

// newRig is a queue with n dead letters.
func newRig(t *testing.T, n int) *rig {
	t.Helper()
	broker, err := embedded.New(embedded.Options{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		assert.NoError(t, broker.Close(ctx))
	})
	r := &rig{t: t, broker: broker}
	var all []mq.DeadLetter
	for i := range n {
		id := strconv.Itoa(i)
		all = append(all, letter(mq.Version, mq.FormatRowBinary, twoColumns, string(rune(len(id)))+id+"\x01/"))
	}
	r.park(all...)
	r.store, err = broker.DeadLetters(birch)
	require.NoError(t, err)
	return r
}

func letter(version, format, columns, row string) mq.DeadLetter {
	return mq.DeadLetter{
		Topic:  topic,
		Header: mq.Header{Version: version, Format: format, Columns: columns, Rows: 1, Received: parkedAt},
		Row:    []byte(row), Error: "e", Code: "c",
	}
}

func (r *rig) park(all ...mq.DeadLetter) {
	r.t.Helper()
	for page := range slices.Chunk(all, 1000) {
		require.NoError(r.t, r.broker.Park(r.t.Context(), page...))
	}
}

// left is how many letters there are.
func (r *rig) left() int {
	r.t.Helper()
	counts, err := r.store.Counts(r.t.Context())
	require.NoError(r.t, err)
	return int(counts["pages"])
}

// chunks are what a replay put into the queue.
func (r *rig) chunks() (all []mq.Chunk) {
	r.t.Helper()
	tail, err := r.broker.Tail(r.t.Context(), topic)
	require.NoError(r.t, err)
	err = r.broker.Replay(r.t.Context(), topic, mq.Position{}, tail, func(c mq.Chunk, _ mq.Position) error {
		c.Body = bytes.Clone(c.Body)
		all = append(all, c)
		return nil
	})
	require.NoError(r.t, err)
	return all
}

// wantRows holds the queue to these rows, each of them once.
func (r *rig) wantRows(want []string) {
	r.t.Helper()
	var rows []string
	for _, c := range r.chunks() {
		rows = append(rows, ingesttest.ChunkRows(r.t, c)...)
	}
	slices.Sort(rows)
	assert.Equal(r.t, slices.Sorted(slices.Values(want)), rows)
}

func (r *rig) replay(more func(*letters.Replay), o letters.Options) (letters.Replayed, error) {
	r.t.Helper()
	q := letters.Replay{Topic: topic, Store: r.store, Table: ingesttest.Pages(), Limit: 100_000}
	if more != nil {
		more(&q)
	}
	if o.Broker == nil {
		o.Broker = r.broker
	}
	return letters.NewKeeper(o).Replay(r.t.Context(), q)
}

func TestReplayPutsRowsBack(t *testing.T) {
	r := newRig(t, 2600)
	result, err := r.replay(nil, letters.Options{})
	require.NoError(t, err)
	assert.Equal(t, letters.Replayed{Replayed: 2600}, result)
	r.wantRows(ingesttest.Rows(0, 2600))
	assert.Zero(t, r.left())
	chunks := r.chunks()
	assert.Less(t, len(chunks), 60, "rows go back in chunks")
	for _, c := range chunks {
		assert.WithinDuration(t, parkedAt, c.Received, 0, "rows keep the time they came at")
	}
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
	r := newRig(t, 2600)
	replayed := 0
	for _, discards := range []int{0, 2, 0, 1} {
		result, err := r.replay(func(q *letters.Replay) { q.Store = &mortal{q.Store, discards} }, letters.Options{})
		require.ErrorIs(t, err, errDied)
		replayed += result.Replayed
		assert.Equal(t, 2600-replayed, r.left())
	}
	result, err := r.replay(nil, letters.Options{})
	require.NoError(t, err)
	assert.Equal(t, 2600, replayed+result.Replayed)
	r.wantRows(ingesttest.Rows(0, 2600))
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
	r := newRig(t, 2600)
	result, err := r.replay(nil, letters.Options{Broker: &fullAfter{r.broker, 4}})
	var whole *ingest.Error
	require.ErrorAs(t, err, &whole)
	assert.Equal(t, ingest.CodeQueueFull, whole.Code)
	assert.Positive(t, whole.RetryAfter)
	assert.Positive(t, result.Replayed)
	assert.Equal(t, 2600-result.Replayed, r.left())
	assert.NotEmpty(t, result.Cursor)
	rest, err := r.replay(func(q *letters.Replay) { q.Cursor = result.Cursor }, letters.Options{})
	require.NoError(t, err)
	assert.Equal(t, 2600, result.Replayed+rest.Replayed)
	r.wantRows(ingesttest.Rows(0, 2600))
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
	r := newRig(t, 2600)
	ctx, cancel := context.WithCancel(t.Context())
	keeper := letters.NewKeeper(letters.Options{Broker: &leaver{r.broker, 2, cancel}})
	q := letters.Replay{Topic: topic, Store: r.store, Table: ingesttest.Pages(), Limit: 100_000}
	result, err := keeper.Replay(ctx, q)
	require.ErrorIs(t, err, context.Canceled)
	assert.Positive(t, result.Replayed)
	assert.Less(t, result.Replayed, 2600)
	assert.Equal(t, 2600-result.Replayed, r.left(), "what is in the queue has left the letters")
	rest, err := keeper.Replay(t.Context(), q)
	require.NoError(t, err)
	assert.Equal(t, 2600, result.Replayed+rest.Replayed)
	r.wantRows(ingesttest.Rows(0, 2600))
}

func TestReplayIsBoundedByItsLimit(t *testing.T) {
	r := newRig(t, 1200)
	cursor, total, calls := "", 0, 0
	for {
		result, err := r.replay(func(q *letters.Replay) { q.Limit, q.Cursor, q.DryRun = 500, cursor, true }, letters.Options{})
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
	result, err := r.replay(nil, letters.Options{Now: func() time.Time {
		clock = clock.Add(25 * time.Second)
		return clock
	}})
	require.NoError(t, err)
	assert.NotEmpty(t, result.Cursor)
	assert.LessOrEqual(t, result.Replayed, 1000)
	_, err = r.replay(func(q *letters.Replay) { q.Cursor = "nonsense" }, letters.Options{})
	require.ErrorIs(t, err, mq.ErrBadCursor)
}

func TestReplayOfLettersThatAreNoRows(t *testing.T) {
	r := newRig(t, 0)
	r.park(
		letter("", "", "", "junk"),
		letter(mq.Version, mq.FormatRowBinary, twoColumns, "\x01a\x01/"),
		letter(mq.Version, mq.FormatRowBinary, twoColumns, "\x05a"),
		letter(mq.Version, mq.FormatRowBinary, `[`, "\x01a\x01/"),
		letter(mq.Version, mq.FormatJSONCompactEachRow, twoColumns, `["b","/"]`+"\n"),
		letter(mq.Version, mq.FormatJSONCompactEachRow, twoColumns, `["b"`),
		letter(mq.Version, "Parquet", twoColumns, "x"),
		letter("9", mq.FormatRowBinary, twoColumns, "\x01a\x01/"),
	)
	result, err := r.replay(nil, letters.Options{})
	require.NoError(t, err)
	assert.Equal(t, 2, result.Replayed)
	assert.Equal(t, 6, result.Failed)
	var codes []string
	for _, f := range result.Failures {
		codes = append(codes, f.Code)
		assert.NotEmpty(t, f.Message)
	}
	assert.Equal(t, []string{
		letters.CodeUnreadable, record.CodeMalformed, letters.CodeUnreadable,
		letters.CodeUnreadable, letters.CodeUnreadable, letters.CodeUnreadable,
	}, codes)
	assert.Equal(t, 6, r.left())
	r.wantRows([]string{`{"event_id":"a","page":"/"}`, `{"event_id":"b","page":"/"}`})
}

// slow is a store whose counts take as long as the test wants.
type slow struct {
	mq.DeadLetterStore
	asked, goOn chan struct{}
}

func (s slow) Counts(ctx context.Context) (map[string]uint64, error) {
	close(s.asked)
	<-s.goOn
	return s.DeadLetterStore.Counts(ctx)
}

func TestOneCallAtATimeDisposesOfATable(t *testing.T) {
	r := newRig(t, 3)
	keeper := letters.NewKeeper(letters.Options{Broker: r.broker})
	store := slow{r.store, make(chan struct{}), make(chan struct{})}
	discarded := make(chan error, 1)
	go func() {
		n, err := keeper.Discard(t.Context(), letters.Discard{Topic: topic, Store: store})
		assert.Equal(t, 3, n)
		discarded <- err
	}()
	<-store.asked
	all := letters.Replay{Topic: topic, Store: r.store, Table: ingesttest.Pages(), Limit: 10}
	_, err := keeper.Replay(t.Context(), all)
	require.ErrorIs(t, err, letters.ErrBusy)
	_, err = keeper.Discard(t.Context(), letters.Discard{Topic: topic, Store: r.store})
	require.ErrorIs(t, err, letters.ErrBusy)
	other := letters.Discard{Topic: mq.Topic{Tenant: birch, Table: "others"}, Store: r.store}
	_, err = keeper.Discard(t.Context(), other)
	require.NoError(t, err)
	close(store.goOn)
	require.NoError(t, <-discarded)
	_, err = keeper.Replay(t.Context(), all)
	require.NoError(t, err)
	assert.Zero(t, r.left())
}

func TestDiscardTakesNoLetterOfAnotherTable(t *testing.T) {
	r := newRig(t, 1500)
	page, err := r.store.List(t.Context(), "pages", 2, "")
	require.NoError(t, err)
	ids := []string{page.Letters[0].ID, page.Letters[1].ID, "nonsense"}
	keeper := letters.NewKeeper(letters.Options{Broker: r.broker})
	n, err := keeper.Discard(t.Context(), letters.Discard{Topic: mq.Topic{Tenant: birch, Table: "others"}, Store: r.store, IDs: ids})
	require.NoError(t, err)
	assert.Zero(t, n)
	n, err = keeper.Discard(t.Context(), letters.Discard{Topic: topic, Store: r.store, IDs: ids})
	require.NoError(t, err)
	assert.Equal(t, 2, n)
	assert.Equal(t, 1498, r.left())
	n, err = keeper.Discard(t.Context(), letters.Discard{Topic: topic, Store: r.store})
	require.NoError(t, err)
	assert.Equal(t, 1498, n)
}
