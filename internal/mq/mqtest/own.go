package mqtest

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// ownCases are for queues that this process shapes.
func ownCases() []testCase {
	budgets := func(c Capabilities) bool { return c.Budgets && c.Purger }
	purger := func(c Capabilities) bool { return c.Purger }
	return []testCase{
		{name: "own/full queue is its tenant's alone and clears", needs: budgets, run: fullQueue},
		{name: "own/stuck chunk costs its table alone", needs: budgets, run: stuckChunk},
		{name: "own/table that is not written leaves room", needs: budgets, run: tableShares},
		{name: "own/smaller budget does not drop letters", needs: budgets, run: letterBudget},
		{name: "own/letters that keep the older ones", needs: budgets, run: letterKeepOlder},
		{name: "own/queue that cannot be opened", needs: func(c Capabilities) bool { return c.Damage && budgets(c) }, run: unopened},
		{name: "own/replay over a purged start", needs: purger, run: replayPurged},
		{name: "own/only what is acknowledged and old is purged", needs: purger, run: purgeAcked},
		{name: "own/tenants by pages", needs: purger, run: tenantPages},
		{name: "own/floor", needs: func(c Capabilities) bool { return c.Floors }, run: floors},
		{name: "own/batches are remembered until they are acknowledged", needs: func(c Capabilities) bool { return c.Batches }, run: batches},
	}
}

func fullQueue(t *testing.T, s Store) {
	b := open(t, s)
	require.NoError(t, capable[mq.Budgets](t, b).SetBudget(t.Context(), "birch", 200<<10))
	body := string(bytes.Repeat([]byte("x"), 10<<10))
	stored := 0
	for {
		_, err := b.Publish(t.Context(), Chunk("birch", "t", body))
		if err != nil {
			require.ErrorIs(t, err, mq.ErrFull)
			break
		}
		stored++
		require.Less(t, stored, 30)
	}
	require.Greater(t, stored, 13, "a table has four fifths for itself")
	publishMany(t, b, "cedar", "t", 5)
	in, c := consume(t, b)
	got := in.await(t, stored+5)
	require.Len(t, got, stored+5, "nothing was discarded to make room")
	_, err := b.Publish(t.Context(), Chunk("birch", "t", body))
	require.ErrorIs(t, err, mq.ErrFull)
	require.NoError(t, c.Ack(got...))
	publish(t, b, Chunk("birch", "t", body))
}

// stuckChunk: a chunk of table a is never acknowledged, and several budgets of
// table b are, behind it.
func stuckChunk(t *testing.T, s Store) {
	b := open(t, s)
	require.NoError(t, capable[mq.Budgets](t, b).SetBudget(t.Context(), "birch", 1<<20))
	in, c := consume(t, b)
	publish(t, b, Chunk("birch", "a", "stuck"))
	stuck := in.await(t, 1)[0]
	body := string(make([]byte, 20<<10))
	var at []mq.Position
	write := func(n int) {
		for range n {
			at = append(at, publish(t, b, Chunk("birch", "b", body)))
			all := in.await(t, len(at)+1)
			require.NoError(t, c.Ack(all[len(at)]))
		}
	}
	write(150)
	st := statusOf(t, b, "birch")
	require.EqualValues(t, 1, st.Pending)
	require.LessOrEqual(t, st.Bytes, uint64(1<<20))
	topic, last := mq.Topic{Tenant: "birch", Table: "b"}, at[len(at)-1]
	first := requireGap(t, b.Replay(t.Context(), topic, mq.Position{}, last, never), mq.GapRetention)
	require.True(t, at[0].Before(first))
	kept, err := b.FirstKept(t.Context(), topic)
	require.NoError(t, err)
	require.Equal(t, first, kept)
	require.NotEmpty(t, history(t, b, topic, first.Prev(), last), "what was removed is the oldest")

	b = reopen(t, s, b)
	requireGap(t, b.Replay(t.Context(), topic, at[0], last, never), mq.GapRetention)
	in, c = consume(t, b)
	require.Equal(t, stuck.Position(), in.await(t, 1)[0].Position(), "it comes again, and nothing else")
	at = nil
	write(60)
	require.NoError(t, c.Ack(in.list()[0]))
	st = statusOf(t, b, "birch")
	require.Zero(t, st.Pending)
	require.Equal(t, st.Chunks, purgeOf(t, b, "birch", time.Now().Add(time.Hour)))
	require.Zero(t, statusOf(t, b, "birch").Chunks)
}

// tableShares: tables whose chunks nobody acknowledges are refused on their
// own, before and after a restart.
func tableShares(t *testing.T, s Store) {
	b := open(t, s)
	require.NoError(t, capable[mq.Budgets](t, b).SetBudget(t.Context(), "birch", 1<<20))
	body := string(make([]byte, 20<<10))
	fill := func(table string) (n int) {
		for ; ; n++ {
			if _, err := b.Publish(t.Context(), Chunk("birch", table, body)); err != nil {
				require.ErrorIs(t, err, mq.ErrFull)
				return n
			}
			require.Less(t, n, 60)
		}
	}
	a := fill("a")
	require.Greater(t, a, 35)
	others := 0
	for _, table := range []string{"b", "c"} {
		n := fill(table)
		require.Positive(t, n)
		others += n
	}
	in, _ := consume(t, b)
	in.await(t, a+others)
	require.Zero(t, fill("a"))
	b = reopen(t, s, b)
	in, c := consume(t, b)
	all := in.await(t, a+others)
	require.Zero(t, fill("a"), "it has its share still")
	for _, d := range all {
		if d.Chunk().Table == "a" {
			require.NoError(t, c.Ack(d))
		}
	}
	require.Positive(t, fill("a"))
}

func letterBudget(t *testing.T, s Store) {
	b := open(t, s)
	require.NoError(t, capable[mq.Budgets](t, b).SetBudget(t.Context(), "birch", 10<<20))
	publishMany(t, b, "birch", "t", 1)
	park(t, b, "birch", "a", 100)
	err := capable[mq.Budgets](t, b).SetBudget(t.Context(), "birch", 20<<10)
	require.ErrorIs(t, err, mq.ErrBudgetNotApplied)
	st := statusOf(t, b, "birch")
	require.EqualValues(t, 10<<20, st.Budget, "neither stream is resized")
	store := lettersOf(t, b, "birch")
	letters := list(t, store, "a")
	require.Len(t, letters, 100)
	publish(t, b, Chunk("birch", "t", string(make([]byte, 100<<10))))
	var ids []string
	for _, l := range letters {
		ids = append(ids, l.ID)
	}
	n, err := store.Discard(t.Context(), ids...)
	require.NoError(t, err)
	require.Equal(t, 100, n)
	require.EqualValues(t, 20<<10, statusOf(t, b, "birch").Budget, "applied once there is room")
	require.Error(t, capable[mq.Budgets](t, b).SetBudget(t.Context(), "birch", 0))
}

// letterKeepOlder fills a tenant's share of dead letters: the oldest make room
// for new ones, but not for those that are to keep them.
func letterKeepOlder(t *testing.T, s Store) {
	b := open(t, s)
	require.NoError(t, capable[mq.Budgets](t, b).SetBudget(t.Context(), "birch", 100<<10))
	row := string(make([]byte, 1<<10))
	letter := func(keep bool) mq.DeadLetter {
		l := Letter("birch", "t", row)
		l.KeepOlder = keep
		return l
	}
	store, n := lettersOf(t, b, "birch"), 0
	for err := error(nil); err == nil; n++ {
		require.Less(t, n, 20, "10 KiB are for letters")
		err = b.Park(t.Context(), letter(true))
		if err != nil {
			require.ErrorIs(t, err, mq.ErrFull)
			break
		}
	}
	kept := list(t, store, "t")
	require.Len(t, kept, n)
	require.ErrorIs(t, b.Park(t.Context(), letter(false), letter(true)), mq.ErrFull, "one of them must not")
	require.Equal(t, kept, list(t, store, "t"), "nothing was pushed out, and nothing stored")
	require.NoError(t, b.Park(t.Context(), letter(false), letter(false)))
	left := list(t, store, "t")
	require.NotEqual(t, kept[0], left[0], "the oldest made room")
	_, err := store.Discard(t.Context(), left[0].ID, left[1].ID)
	require.NoError(t, err)
	require.NoError(t, b.Park(t.Context(), letter(true)), "there is room again")
}

// unopened: a tenant's queue that cannot be opened is that tenant's trouble
// alone, is told, and is tried again with its budget.
func unopened(t *testing.T, s Store) {
	b := open(t, s)
	for _, id := range []tenant.ID{"birch", "cedar"} {
		publishMany(t, b, id, "t", 1)
	}
	require.Empty(t, capable[mq.Budgets](t, b).Unopened())
	require.NoError(t, b.Close(t.Context()))
	repair := s.Damage(t, "birch")
	b = open(t, s)
	require.Equal(t, []tenant.ID{"birch"}, capable[mq.Budgets](t, b).Unopened())
	st := statusOf(t, b, "birch")
	require.Error(t, st.Err)
	require.True(t, st.Kept)
	_, err := b.Publish(t.Context(), Chunk("birch", "t", "x"))
	require.ErrorIs(t, err, mq.ErrUnavailable)
	require.NotErrorIs(t, err, mq.ErrFull, "it would be told that the worker makes room")
	require.NoError(t, b.Full(), "the others go on")
	publishMany(t, b, "cedar", "t", 1)
	require.Error(t, capable[mq.Budgets](t, b).SetBudget(t.Context(), "birch", 1<<30))
	repair()
	require.NoError(t, capable[mq.Budgets](t, b).SetBudget(t.Context(), "birch", 1<<30))
	require.Empty(t, capable[mq.Budgets](t, b).Unopened())
	publishMany(t, b, "birch", "t", 1)
	require.NoError(t, statusOf(t, b, "birch").Err)
}

func purgeOf(t *testing.T, b mq.Broker, id tenant.ID, before time.Time) uint64 {
	t.Helper()
	purged, err := capable[mq.Purger](t, b).Purge(t.Context(), map[tenant.ID]time.Time{id: before, "nobody": before})
	require.NoError(t, err)
	require.NotContains(t, purged, tenant.ID("nobody"))
	return purged[id]
}

func replayPurged(t *testing.T, s Store) {
	b := open(t, s)
	in, c := consume(t, b)
	at := publishMany(t, b, "birch", "t", 10)
	require.NoError(t, c.Ack(in.await(t, 10)[:6]...))
	require.EqualValues(t, 6, purgeOf(t, b, "birch", time.Now().Add(time.Hour)))
	topic := mq.Topic{Tenant: "birch", Table: "t"}
	for _, from := range []mq.Position{{}, at[0], at[4]} {
		first := requireGap(t, b.Replay(t.Context(), topic, from, at[9], never), mq.GapRetention)
		require.Equal(t, at[6], first)
		kept, err := b.FirstKept(t.Context(), topic)
		require.NoError(t, err)
		require.Equal(t, first, kept)
		require.Equal(t, numbered("birch", "t", 6, 10), history(t, b, topic, first.Prev(), at[9]))
	}
	require.Equal(t, numbered("birch", "t", 6, 10), history(t, b, topic, at[5], at[9]))
	require.NoError(t, c.Ack(in.list()[6:]...))
	require.EqualValues(t, 4, purgeOf(t, b, "birch", time.Now().Add(time.Hour)))
	first := requireGap(t, b.Replay(t.Context(), topic, at[7], at[9], never), mq.GapRetention)
	require.True(t, first.IsZero(), "nothing is kept")
	kept, err := b.FirstKept(t.Context(), topic)
	require.NoError(t, err)
	require.Equal(t, at[9], kept.Prev(), "what comes next is the first that is kept")
	require.Empty(t, history(t, b, topic, at[9], at[9]))
	b = reopen(t, s, b)
	tail, err := b.Tail(t.Context(), topic)
	require.NoError(t, err)
	require.Equal(t, at[9], tail, "an empty queue remembers where it was")
	require.True(t, at[9].Before(publishMany(t, b, "birch", "t", 1)[0]))
}

func purgeAcked(t *testing.T, s Store) {
	b := open(t, s)
	in, c := consume(t, b)
	publishMany(t, b, "birch", "t", 10)
	got := in.await(t, 10)
	require.Zero(t, purgeOf(t, b, "birch", time.Now().Add(time.Hour)), "nothing is acknowledged")
	require.NoError(t, c.Ack(got[0], got[1], got[3]))
	require.Zero(t, purgeOf(t, b, "birch", time.Now().Add(-time.Hour)), "nothing is old")
	require.EqualValues(t, 2, purgeOf(t, b, "birch", time.Now().Add(time.Hour)))
	st := statusOf(t, b, "birch")
	require.EqualValues(t, 8, st.Chunks)
	require.EqualValues(t, 7, st.Pending)
	require.False(t, st.OldestPending.IsZero())
	require.NoError(t, c.Ack(got...))
	b = reopen(t, s, b)
	require.EqualValues(t, 8, purgeOf(t, b, "birch", time.Now().Add(time.Hour)), "after a restart")
	st = statusOf(t, b, "birch")
	require.Zero(t, st.Chunks)
	require.Zero(t, st.Pending)
	require.True(t, st.OldestPending.IsZero())
}

func tenantPages(t *testing.T, s Store) {
	b := open(t, s)
	for n := range 5 {
		publishMany(t, b, tenant.ID(fmt.Sprint("t", n)), "t", 1)
	}
	park(t, b, "parked", "t", 3)
	var all []tenant.ID
	for after := tenant.ID(""); ; after = all[len(all)-1] {
		page, err := capable[mq.Purger](t, b).Tenants(t.Context(), after, 4)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page), 4)
		if len(page) == 0 {
			break
		}
		all = append(all, page...)
	}
	require.Equal(t, []tenant.ID{"parked", "t0", "t1", "t2", "t3", "t4"}, all)
	st := statusOf(t, b, "t3")
	require.True(t, st.Kept)
	require.EqualValues(t, 1, st.Chunks)
	require.EqualValues(t, 1, st.Pending)
	require.Positive(t, st.Bytes)
	require.EqualValues(t, 3, statusOf(t, b, "parked").DeadLetters)
	require.Equal(t, mq.TenantStatus{}, statusOf(t, b, "nobody"))
}

func floors(t *testing.T, s Store) {
	b, topic := open(t, s), mq.Topic{Tenant: "birch", Table: "t"}
	floorOf := func() (floor, inherited mq.Position) {
		floor, inherited, err := capable[mq.Floors](t, b).Floor(t.Context(), topic)
		require.NoError(t, err)
		return floor, inherited
	}
	floor, inherited := floorOf()
	require.True(t, floor.IsZero())
	require.True(t, inherited.IsZero())
	in, c := consume(t, b)
	inherits := func(want mq.Position) {
		t.Helper()
		require.Eventually(t, func() bool { _, inherited := floorOf(); return inherited == want }, patience, time.Millisecond)
	}
	inherits(mq.Position{})
	at := publishMany(t, b, "birch", "t", 3)
	all := in.await(t, 3)
	require.NoError(t, c.Ack(all[0], all[2]))
	floor, inherited = floorOf()
	require.Equal(t, at[0], floor, "the second is not acknowledged")
	require.True(t, inherited.Before(at[0]), "this process wrote them all")
	b = reopen(t, s, b)
	floor, _ = floorOf()
	require.Equal(t, at[0], floor)
	in, c = consume(t, b)
	inherits(at[2])
	require.NoError(t, c.Ack(in.await(t, 1)...))
	floor, _ = floorOf()
	require.Equal(t, at[2], floor)
	require.NoError(t, b.Close(t.Context()))
	_, _, err := capable[mq.Floors](t, b).Floor(t.Context(), topic)
	require.ErrorIs(t, err, mq.ErrClosed)
}

// batches: what was being written is known again after a restart, until its
// chunks are acknowledged; another composition of the same rows takes its place.
func batches(t *testing.T, s Store) {
	b := open(t, s)
	in, c := consume(t, b)
	at := publishMany(t, b, "birch", "t", 6)
	publishMany(t, b, "cedar", "t", 1)
	in.await(t, 7)
	topic := mq.Topic{Tenant: "birch", Table: "t"}
	shard, _ := c.Shard(topic)
	rows := func(n, from, to int) mq.Rows { return mq.Rows{Chunk: at[n], From: from, To: to} }
	note := func(settled bool, rows ...mq.Rows) mq.Batch {
		batch := mq.Batch{Topic: topic, Rows: rows, Settled: settled}
		require.NoError(t, capable[mq.Batches](t, b).Note(batch))
		return batch
	}
	noted := func() []mq.Batch {
		got, err := capable[mq.Batches](t, b).Noted(shard)
		require.NoError(t, err)
		return got
	}
	require.Empty(t, noted())
	note(false, rows(0, 0, 0), rows(1, 0, 0), rows(2, 0, 0)) // refused, and narrowed down
	first := note(false, rows(0, 0, 0), rows(1, 0, 3))
	second := note(true, rows(1, 3, 5), rows(5, 0, 2))
	third := note(false, rows(4, 0, 0), rows(3, 7, 9))
	other := topic
	for n := 0; ; n++ {
		other.Table = fmt.Sprint("a.b \x00ü", n)
		if of, _ := c.Shard(other); of == shard {
			break
		}
	}
	fourth := mq.Batch{Topic: other, Rows: []mq.Rows{rows(2, 0, 0)}}
	require.NoError(t, capable[mq.Batches](t, b).Note(fourth))
	want := []mq.Batch{first, second, third, fourth}
	require.Equal(t, want, noted())
	b = reopen(t, s, b)
	require.Equal(t, want, noted())
	in, c = consume(t, b)
	require.Len(t, in.await(t, 7), 7)
	// Tenants are delivered beside each other.
	own := slices.DeleteFunc(in.list(), func(d mq.Delivery) bool { return d.Chunk().Tenant != "birch" })
	require.NoError(t, c.Ack(own[4]))
	third.Settled, third.Rows = true, third.Rows[1:]
	require.Equal(t, []mq.Batch{first, second, third, fourth}, noted(), "its chunk is acknowledged, so it was written")
	require.NoError(t, c.Ack(own[:4]...))
	second.Rows = second.Rows[1:]
	require.Equal(t, []mq.Batch{second}, noted())
	b = reopen(t, s, b)
	require.Equal(t, []mq.Batch{second}, noted())
	in, c = consume(t, b)
	in.await(t, 2)
	require.NoError(t, c.Ack(in.list()...))
	require.Empty(t, noted())
	require.NoError(t, b.Close(t.Context()))
	require.ErrorIs(t, capable[mq.Batches](t, b).Note(first), mq.ErrClosed)
	_, err := capable[mq.Batches](t, b).Noted(shard)
	require.ErrorIs(t, err, mq.ErrClosed)
}
