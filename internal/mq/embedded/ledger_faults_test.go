package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/embedded/ledger"
	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
	"github.com/wavehouse/wavehouse/internal/mq/mqtest"
)

func ledgerFile(dir, tenant string) string { return filepath.Join(dir, "acks", tenant+".acks") }

// TestLedgerThatIsGone delivers all again rather than losing any.
func TestLedgerThatIsGone(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"missing": os.Remove,
		"garbage": func(path string) error { return os.WriteFile(path, []byte("garbage"), 0o600) },
		"of another stream": func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			l, _, err := ledger.Open(path, ledger.Stream{Epoch: 1, First: 4, Last: 3}, quiet())
			return errors.Join(err, l.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, log := t.TempDir(), &logBook{}
			b := start(t, Options{Dir: dir})
			in, c := consumeInto(t, b)
			for n := range 3 {
				put(t, b, "birch", fmt.Sprint(n))
			}
			require.NoError(t, c.Ack(in.await(t, 3)...))
			require.NoError(t, b.Close(t.Context()))
			require.NoError(t, damage(ledgerFile(dir, "birch")))
			require.NoError(t, os.WriteFile(ledgerFile(dir, "birch")+".tmp", nil, 0o600))
			b = start(t, Options{Dir: dir, Logger: log.logger()})
			in, c = consumeInto(t, b)
			require.Equal(t, []string{"0", "1", "2"}, bodies(in.await(t, 3)))
			require.Contains(t, log.text(), "no record of what was delivered")
			require.NoError(t, c.Ack(in.list()...))
			require.NoFileExists(t, ledgerFile(dir, "birch")+".tmp")
		})
	}
}

// TestLedgerAheadOfTheStream: sequences that the stream lost are given out
// again and must be delivered.
func TestLedgerAheadOfTheStream(t *testing.T) {
	dir, log := t.TempDir(), &logBook{}
	b := start(t, Options{Dir: dir})
	pos := put(t, b, "birch", "0")
	require.NoError(t, b.Close(t.Context()))
	epoch, _ := mq.SplitPosition(pos)
	l, _, err := ledger.Open(ledgerFile(dir, "birch"), ledger.Stream{Epoch: epoch, First: 1, Last: 1}, quiet())
	require.NoError(t, err)
	require.NoError(t, l.Append([]ledger.Range{{Lo: 1, Hi: 50}}, nil))
	require.NoError(t, l.Close())
	b = start(t, Options{Dir: dir, Logger: log.logger()})
	require.Contains(t, log.text(), "lost its newest chunks")
	in, _ := consumeInto(t, b)
	require.Equal(t, seqOf(pos)+1, seqOf(put(t, b, "birch", "1")))
	require.Equal(t, []string{"1"}, bodies(in.await(t, 1)))
}

// TestLedgerThatCannotBeWritten: an acknowledgement that is not recorded is
// an error, and may be repeated.
func TestLedgerThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	b := start(t, Options{Dir: dir})
	in, c := consumeInto(t, b)
	put(t, b, "birch", "0")
	put(t, b, "birch", "1")
	got := in.await(t, 2)
	q := b.queue("birch")
	q.ackMu.Lock()
	require.NoError(t, q.ledger.Close())
	q.ackMu.Unlock()
	inTheWay := ledgerFile(dir, "birch") + ".tmp"
	require.NoError(t, os.Mkdir(inTheWay, 0o700))
	require.Error(t, c.Ack(got[0]))
	require.EqualValues(t, 2, statusOf(t, b, "birch").Pending)
	require.NoError(t, os.Remove(inTheWay))
	require.NoError(t, c.Ack(got...), "the file is replaced")
	require.Zero(t, statusOf(t, b, "birch").Pending)
	require.Error(t, c.Ack(foreign{}))
}

// TestAcknowledgementsOutliveTheMachine: not at once, but soon, without another
// acknowledgement or a stop.
func TestAcknowledgementsOutliveTheMachine(t *testing.T) {
	b := start(t, Options{Dir: t.TempDir(), WatchInterval: 5 * time.Millisecond, syncEvery: 10 * time.Millisecond})
	in, c := consumeInto(t, b)
	put(t, b, "birch", "0")
	q := b.queue("birch")
	for round := 1; round <= 2; round++ {
		require.NoError(t, c.Ack(in.await(t, round)...))
		require.Eventually(t, func() bool {
			q.ackMu.Lock()
			defer q.ackMu.Unlock()
			return q.ledger.Synced()
		}, time.Minute, time.Millisecond)
		put(t, b, "birch", "more")
	}
}

type foreign struct{ mq.Delivery }

func TestStaleItemsOfTheScheduleAreDropped(t *testing.T) {
	b := start(t, Options{Dir: t.TempDir()})
	in, c := consumeInto(t, b)
	for n := range 1500 {
		if n%100 == 0 {
			put(t, b, "birch", "x")
		}
		require.NoError(t, in.await(t, 1)[0].Extend())
	}
	q := b.queue("birch")
	require.NoError(t, c.Ack(in.await(t, 15)...))
	q.mu.Lock()
	defer q.mu.Unlock()
	require.Less(t, len(q.source.due), 1200)
	require.Empty(t, q.source.open)
}

// TestUnreadableChunkIsHandedOn: a message that the store holds and cannot
// read is delivered as no chunk, after a few attempts.
func TestUnreadableChunkIsHandedOn(t *testing.T) {
	b := start(t, Options{Dir: t.TempDir()})
	put(t, b, "birch", "0")
	put(t, b, "birch", "1")
	q := b.queue("birch")
	c := &consumption{b: b, ctx: b.ctx}
	s := newSource(c, q)
	s.next = 1
	for n := range 2*maxUnread - 1 {
		require.Positive(t, s.readFailed(1, q.generation, jetstream.ErrNoMessage), "attempt %d", n)
		require.Empty(t, s.ahead)
	}
	require.Zero(t, s.readFailed(1, q.generation, jetstream.ErrNoMessage))
	d, _ := s.take()
	require.Equal(t, mq.Chunk{Topic: mq.Topic{Tenant: "birch"}}, d.Chunk())
	require.EqualValues(t, 1, seqOf(d.Position()))
	d, _ = s.take()
	if d == nil { // it was read first
		d, _ = s.take()
	}
	require.Equal(t, "1", string(d.Chunk().Body))
	require.Positive(t, s.readFailed(9, q.generation, jetstream.ErrNoMessage), "not stored yet")
	require.Positive(t, s.readFailed(1, q.generation, os.ErrDeadlineExceeded))
}

// TestBudgetIsTakenBack: when one stream cannot be resized, neither is.
func TestBudgetIsTakenBack(t *testing.T) {
	b := start(t, Options{Dir: t.TempDir(), DefaultBudget: 1 << 30})
	put(t, b, "birch", "x")
	require.NoError(t, b.Park(t.Context(), mqtest.Letter("birch", "t", "row")))
	q := b.queue("birch")
	before, err := q.resizeLetters(t.Context(), letterConfig("birch", 2<<30))
	require.NoError(t, err)
	require.EqualValues(t, (1<<30)/deadLetterShare, before)
	_, err = q.resizeLetters(t.Context(), letterConfig("birch", 1<<30))
	require.NoError(t, err)
	info, err := jetstream.Info(t.Context(), b.host.js, "DLQ_birch")
	require.NoError(t, err)
	require.EqualValues(t, (1<<30)/deadLetterShare, info.Config.MaxBytes)
	require.NoError(t, b.host.js.DeleteStream(t.Context(), "INGEST_birch"))
	require.ErrorIs(t, b.SetBudget(t.Context(), "birch", 3<<30), mq.ErrBudgetNotApplied)
	info, err = jetstream.Info(t.Context(), b.host.js, "DLQ_birch")
	require.NoError(t, err)
	require.EqualValues(t, (1<<30)/deadLetterShare, info.Config.MaxBytes, "taken back")
	_, err = b.Publish(t.Context(), mqtest.Chunk("birch", "t", "x"))
	require.ErrorIs(t, err, mq.ErrUnavailable, "the stream vanished")
	_, err = b.Purge(t.Context(), nil)
	require.NoError(t, err)
}

// TestPurgeDuringReplayIsAGap: the reader is told, and never skips unseen.
func TestPurgeDuringReplayIsAGap(t *testing.T) {
	b := start(t, Options{Dir: t.TempDir()})
	in, c := consumeInto(t, b)
	for range 600 {
		put(t, b, "birch", "x")
	}
	require.NoError(t, c.Ack(in.await(t, 600)...))
	tail, err := b.Tail(t.Context(), mq.Topic{Tenant: "birch"})
	require.NoError(t, err)
	n := 0
	err = b.Replay(t.Context(), mq.Topic{Tenant: "birch", Table: "t"}, mq.Position{}, tail, func(mq.Chunk, mq.Position) error {
		if n++; n == 10 {
			q := b.queue("birch")
			q.ackMu.Lock()
			defer q.ackMu.Unlock()
			_, err := q.purge(t.Context(), 500)
			return err
		}
		return nil
	})
	var gap *mq.ReplayGap
	require.ErrorAs(t, err, &gap)
	require.EqualValues(t, 500, seqOf(gap.First))
	require.Less(t, n, 500)
}

func TestReadOfNothing(t *testing.T) {
	b := start(t, Options{Dir: t.TempDir()})
	ctx := t.Context()
	put(t, b, "birch", "x")
	_, err := b.reads.One(ctx, "INGEST_birch", 2)
	require.ErrorIs(t, err, jetstream.ErrNoMessage)
	_, err = b.reads.Since(ctx, "INGEST_birch", time.Now().Add(time.Hour))
	require.ErrorIs(t, err, jetstream.ErrNoMessage)
	_, err = b.reads.One(ctx, "INGEST_none", 1)
	require.ErrorContains(t, err, "INGEST_none")
}
