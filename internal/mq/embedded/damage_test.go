package embedded

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/embedded/blocks"
	"github.com/wavehouse/wavehouse/internal/mq/embedded/ledger"
	"github.com/wavehouse/wavehouse/internal/mq/mqtest"
)

// store puts n chunks of birch and returns their bodies by position.
func store(t *testing.T, b *Broker, n int) (bodies []string) {
	t.Helper()
	for i := range n {
		body := fmt.Sprintf("chunk %d %s", i, strings.Repeat("x", 300))
		require.EqualValues(t, i+1, seqOf(put(t, b, "birch", body)))
		bodies = append(bodies, body)
	}
	return bodies
}

// delivered starts a consumer and waits until n chunks of birch have come, and no
// more.
func delivered(t *testing.T, b *Broker, n int) map[uint64]string {
	t.Helper()
	in, _ := consumeInto(t, b)
	got := map[uint64]string{}
	require.Eventually(t, func() bool {
		clear(got)
		for _, d := range in.list() {
			if d.Chunk().Tenant == "birch" {
				got[seqOf(d.Position())] = string(d.Chunk().Body)
			}
		}
		return len(got) >= n && statusOf(t, b, "birch").Pending == uint64(n)
	}, time.Minute, 10*time.Millisecond, "what is whole comes, what is lost is not waited for")
	require.Len(t, got, n)
	return got
}

func blockOf(dir, stream string, n int) string {
	return filepath.Join(streamFolder(dir, stream), "msgs", fmt.Sprintf("%d.blk", n))
}

// edit changes a file in its place: who reads it meanwhile never finds it empty.
func edit(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	data = change(data)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(data, 0)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(int64(len(data))))
	require.NoError(t, f.Close())
}

// TestDamageInTheMiddleCostsWhatItHits flips bytes of a file at rest. What lies
// behind them arrives; what is lost is told, counted, and never asked for again.
func TestDamageInTheMiddleCostsWhatItHits(t *testing.T) {
	flip := func(at, n int) func([]byte) []byte {
		return func(data []byte) []byte {
			for i := range n {
				data[at+i] ^= 0xff
			}
			return data
		}
	}
	const chunks = 200
	record := 0
	for name, c := range map[string]struct {
		change func([]byte) []byte
		lost   []uint64 // of the chunks
		most   int      // where it is not known which: at most so many
	}{
		"eight bytes of a body":   {change: func(d []byte) []byte { return flip(100*record+record-30, 8)(d) }, lost: []uint64{101}},
		"the length of a record":  {change: func(d []byte) []byte { return flip(50*record, 4)(d) }},
		"the length of a subject": {change: func(d []byte) []byte { return flip(50*record+20, 2)(d) }},
		"the length of headers":   {change: func(d []byte) []byte { return flip(50*record+22+len("ingest.birch.t"), 4)(d) }},
		"a sequence":              {change: func(d []byte) []byte { return flip(50*record+4, 8)(d) }, lost: []uint64{51}},
		"a page of zeros": {most: 4096/300 + 2, change: func(d []byte) []byte {
			copy(d[8192:], make([]byte, 4096))
			return d
		}},
		"the last record":   {change: func(d []byte) []byte { return flip(len(d)-9, 1)(d) }, lost: []uint64{chunks}},
		"the first record":  {change: func(d []byte) []byte { return flip(5, 1)(d) }, lost: []uint64{1}},
		"cut in a record":   {change: func(d []byte) []byte { return d[:150*record+10] }, lost: sequences(151, chunks)},
		"cut at a record":   {change: func(d []byte) []byte { return d[:150*record] }, lost: sequences(151, chunks)},
		"nothing is left":   {change: func([]byte) []byte { return nil }, lost: sequences(1, chunks)},
		"all of it is zero": {change: func(d []byte) []byte { return make([]byte, len(d)) }, lost: sequences(1, chunks)},
	} {
		t.Run(name, func(t *testing.T) {
			dir, log := t.TempDir(), &logBook{}
			b := start(t, Options{Dir: dir})
			// Records of one size, so that the test knows where they are.
			for i := range chunks {
				put(t, b, "birch", fmt.Sprintf("chunk %03d %s", i, strings.Repeat("x", 100)))
			}
			require.NoError(t, b.Close(t.Context()))
			info, err := os.Stat(blockOf(dir, "INGEST_birch", 1))
			require.NoError(t, err)
			record = int(info.Size()) / chunks
			require.Zero(t, int(info.Size())%chunks)
			edit(t, blockOf(dir, "INGEST_birch", 1), c.change)

			b = start(t, Options{Dir: dir, Logger: log.logger()})
			lost := int(testutil.ToFloat64(b.metrics.lost.WithLabelValues("birch")))
			if c.most > 0 {
				require.Positive(t, lost)
				require.LessOrEqual(t, lost, c.most)
			} else {
				require.Equal(t, len(c.lost), lost, log.text())
			}
			got := delivered(t, b, chunks-lost)
			for seq, body := range got {
				require.True(t, strings.HasPrefix(body, fmt.Sprintf("chunk %03d ", seq-1)), "%d: %q", seq, body)
				require.NotContains(t, c.lost, seq)
			}
			found := b.Damages()
			require.NotEmpty(t, found)
			if lost > 0 {
				require.EqualValues(t, lost, found[0].Lost)
				require.Contains(t, log.text(), "level=ERROR")
				require.Contains(t, log.text(), fmt.Sprintf("lost=%d", lost))
			}
			if len(c.lost) > 0 {
				require.Equal(t, c.lost[0], found[0].First)
				require.Equal(t, c.lost[len(c.lost)-1], found[0].Last)
			}
			for _, f := range found[0].Files {
				require.FileExists(t, f.Copy)
			}
			require.EqualValues(t, chunks+1, seqOf(put(t, b, "birch", "next")), "no position is given twice")
			require.NoError(t, b.Close(t.Context()))

			b = start(t, Options{Dir: dir})
			require.Zero(t, testutil.ToFloat64(b.metrics.lost.WithLabelValues("birch")), "told once")
			require.Equal(t, len(found), len(b.Damages()), "and remembered")
			delivered(t, b, chunks-lost+1)
		})
	}
}

func sequences(from, to uint64) (out []uint64) {
	for ; from <= to; from++ {
		out = append(out, from)
	}
	return out
}

// TestWriteCutShortIsNoDamage: what nobody was answered for is removed silently.
func TestWriteCutShortIsNoDamage(t *testing.T) {
	dir := t.TempDir()
	b := start(t, Options{Dir: dir})
	store(t, b, 20)
	require.NoError(t, b.Close(t.Context()))
	edit(t, blockOf(dir, "INGEST_birch", 1), func(d []byte) []byte { return append(d, d[:100]...) })
	b = start(t, Options{Dir: dir})
	require.Empty(t, b.Damages())
	delivered(t, b, 20)
	require.EqualValues(t, 21, seqOf(put(t, b, "birch", "next")))
}

// TestDamageToHistoryIsNoLoss: what was written is not called lost.
func TestDamageToHistoryIsNoLoss(t *testing.T) {
	dir := t.TempDir()
	b := start(t, Options{Dir: dir})
	in, c := consumeInto(t, b)
	store(t, b, 20)
	require.NoError(t, c.Ack(in.await(t, 20)[:10]...))
	require.NoError(t, b.Close(t.Context()))
	edit(t, blockOf(dir, "INGEST_birch", 1), func(d []byte) []byte { d[len(d)/4+100] ^= 1; return d })
	b = start(t, Options{Dir: dir})
	require.Zero(t, testutil.ToFloat64(b.metrics.lost.WithLabelValues("birch")))
	found := b.Damages()
	require.Len(t, found, 1)
	require.EqualValues(t, 1, found[0].History)
	require.Zero(t, found[0].Lost)
	delivered(t, b, 10)
}

// TestDamageToWhatDescribesAQueue: its description, its index, the ledger and the
// note of what was stored last. No chunk is lost with them.
func TestDamageToWhatDescribesAQueue(t *testing.T) {
	for _, file := range []string{"jetstream/$G/streams/INGEST_birch/meta.inf", "jetstream/$G/streams/INGEST_birch/meta.sum",
		"jetstream/$G/streams/INGEST_birch/msgs/index.db", "acks/birch.acks", "acks/INGEST_birch.mark"} {
		for how, change := range map[string]func([]byte) []byte{
			"flipped": func(d []byte) []byte { d[len(d)/3] ^= 0x40; return d },
			"zeroed":  func(d []byte) []byte { return make([]byte, len(d)) },
			"empty":   func([]byte) []byte { return nil },
		} {
			t.Run(filepath.Base(file)+" "+how, func(t *testing.T) {
				dir := t.TempDir()
				b := start(t, Options{Dir: dir, DefaultBudget: 1 << 30})
				want := store(t, b, 30)
				first := b.queue("birch").position(1)
				put(t, b, "cedar", "untouched")
				require.NoError(t, b.Close(t.Context()))
				edit(t, filepath.Join(dir, file), change)

				b = start(t, Options{Dir: dir, DefaultBudget: 1 << 30})
				require.NoError(t, statusOf(t, b, "birch").Err)
				require.Equal(t, first, b.queue("birch").position(1), "readers' positions stay good")
				require.Zero(t, testutil.ToFloat64(b.metrics.lost.WithLabelValues("birch")))
				for seq, body := range delivered(t, b, 30) {
					require.Equal(t, want[seq-1], body)
				}
				require.EqualValues(t, 31, seqOf(put(t, b, "birch", "next")))
				require.NoError(t, statusOf(t, b, "cedar").Err)
			})
		}
	}
}

// TestDamagedLedgerKeepsWhatIsWholeOfIt: a record that is not whole does not end
// what is read of it, and is told, the last one too. A write that was cut short is no
// damage.
func TestDamagedLedgerKeepsWhatIsWholeOfIt(t *testing.T) {
	flipped := func(n int) func([]byte) []byte {
		return func(d []byte) []byte { d[28+n*20+3] ^= 1; return d }
	}
	for name, c := range map[string]struct {
		change func([]byte) []byte
		again  uint64
		told   bool
	}{
		"in the middle":   {flipped(5), 6, true},
		"the last record": {flipped(19), 20, true},
		"cut short":       {func(d []byte) []byte { return d[:len(d)-7] }, 20, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir, log := t.TempDir(), &logBook{}
			b := start(t, Options{Dir: dir})
			in, consumption := consumeInto(t, b)
			store(t, b, 20)
			for _, d := range in.await(t, 20) {
				require.NoError(t, consumption.Ack(d))
			}
			require.NoError(t, b.Close(t.Context()))
			edit(t, filepath.Join(dir, "acks", "birch.acks"), c.change)
			b = start(t, Options{Dir: dir, Logger: log.logger()})
			require.Equal(t, []uint64{c.again}, slices.Collect(keys(delivered(t, b, 1))))
			if !c.told {
				require.Empty(t, b.Damages())
				return
			}
			require.Contains(t, log.text(), "the record of what was written is damaged")
			require.Len(t, b.Damages(), 1)
			require.Equal(t, mq.StoreAcknowledgments, b.Damages()[0].Store)
			require.FileExists(t, b.Damages()[0].Files[0].Copy)
		})
	}
}

func keys(m map[uint64]string) func(func(uint64) bool) {
	return func(yield func(uint64) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// TestDamagedDeadLetters: those that are whole are kept, and the lost are told.
func TestDamagedDeadLetters(t *testing.T) {
	dir := t.TempDir()
	b := start(t, Options{Dir: dir})
	for n := range 50 {
		require.NoError(t, b.Park(t.Context(), mqtest.Letter("birch", "t", fmt.Sprint("row ", n))))
	}
	require.NoError(t, b.Close(t.Context()))
	edit(t, blockOf(dir, "DLQ_birch", 1), func(d []byte) []byte { d[len(d)/2] ^= 1; d[len(d)-3] ^= 1; return d })
	b = start(t, Options{Dir: dir})
	require.EqualValues(t, 48, statusOf(t, b, "birch").DeadLetters)
	require.EqualValues(t, 2, testutil.ToFloat64(b.metrics.lostLetters.WithLabelValues("birch")))
	require.Equal(t, mq.StoreDeadLetters, b.Damages()[0].Store)
	require.NoError(t, b.Park(t.Context(), mqtest.Letter("birch", "t", "more")))
}

// TestLostLettersNextToDiscardedOnesAreAllCounted: also where the file says nothing
// of how many there were, and only those that were kept.
func TestLostLettersNextToDiscardedOnesAreAllCounted(t *testing.T) {
	const kept = 32
	for name, change := range map[string]func([]byte) []byte{
		"nothing is left":         func([]byte) []byte { return nil },
		"cut in the first record": func(d []byte) []byte { return d[:40] },
		"all of it is zero":       func(d []byte) []byte { return make([]byte, len(d)) },
		"its beginning is zero":   func(d []byte) []byte { clear(d[:len(d)/3]); return d },
		"cut in the middle":       func(d []byte) []byte { return d[:len(d)/3] },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			b := start(t, Options{Dir: dir})
			letters, err := b.DeadLetters("birch")
			require.NoError(t, err)
			for n := range 40 {
				require.NoError(t, b.Park(t.Context(), mqtest.Letter("birch", "t", fmt.Sprint("row ", n))))
			}
			page, err := letters.List(t.Context(), "t", 100, "")
			require.NoError(t, err)
			for n := 0; n < 40; n += 5 {
				_, err := letters.Discard(t.Context(), page.Letters[n].ID)
				require.NoError(t, err)
			}
			require.NoError(t, b.Close(t.Context()))
			edit(t, blockOf(dir, "DLQ_birch", 1), change)
			b = start(t, Options{Dir: dir})
			left := int(statusOf(t, b, "birch").DeadLetters)
			counted := int(testutil.ToFloat64(b.metrics.lostLetters.WithLabelValues("birch")))
			require.GreaterOrEqual(t, counted, kept-left)
			if left == 0 {
				require.Equal(t, kept, counted)
			}
			require.EqualValues(t, 1, testutil.ToFloat64(b.metrics.damages.WithLabelValues(mq.StoreDeadLetters)))
			require.NoError(t, b.Close(t.Context()))
			b = start(t, Options{Dir: dir})
			require.Zero(t, testutil.ToFloat64(b.metrics.lostLetters.WithLabelValues("birch")), "told once")
			require.NoError(t, b.Park(t.Context(), mqtest.Letter("birch", "t", "more")))
		})
	}
}

// TestDamageToWhatIsBeingWrittenIsTold: counted, and what is whole of it is kept; a
// write that was cut short is no damage.
func TestDamageToWhatIsBeingWrittenIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		change func([]byte) []byte
		told   float64
		left   int
	}{
		"a body":               {func(d []byte) []byte { d[len(d)/2] ^= 1; return d }, 1, 2},
		"a length":             {func(d []byte) []byte { d[0] ^= 0xff; return d }, 1, 2},
		"the last":             {func(d []byte) []byte { d[len(d)-1] ^= 1; return d }, 1, 2},
		"all of it":            {func(d []byte) []byte { clear(d); return d }, 1, 0},
		"a write cut short":    {func(d []byte) []byte { return d[:len(d)-3] }, 0, 2},
		"nothing, as a kill":   {func(d []byte) []byte { return d }, 0, 3},
		"one that never began": {func([]byte) []byte { return nil }, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir, log := t.TempDir(), &logBook{}
			b := start(t, Options{Dir: dir})
			store(t, b, 3)
			for n := range 3 {
				require.NoError(t, b.Note(mq.Batch{
					Topic: mq.Topic{Tenant: "birch", Table: fmt.Sprint("t", n)},
					Rows:  []mq.Rows{{Chunk: b.queue("birch").position(uint64(n + 1))}},
				}))
			}
			require.NoError(t, b.Close(t.Context()))
			edit(t, filepath.Join(dir, acksFolder, batchesFile), c.change)
			b = start(t, Options{Dir: dir, Logger: log.logger()})
			require.Equal(t, c.told, testutil.ToFloat64(b.metrics.damages.WithLabelValues(mq.StoreBatches)))
			noted, err := b.Noted(mq.Shard{Name: "birch"})
			require.NoError(t, err)
			require.Len(t, noted, c.left)
			require.Len(t, b.Damages(), int(c.told))
			if c.told > 0 {
				require.Contains(t, log.text(), "level=ERROR")
				require.FileExists(t, b.Damages()[0].Files[0].Copy)
				require.NotContains(t, b.Damages()[0].String(), "tenant")
			}
			delivered(t, b, 3)
		})
	}
}

// TestDamageWhileRunning: files in use are looked at before they are read, and by
// themselves; what is behind the damage still comes.
func TestDamageWhileRunning(t *testing.T) {
	dir, log := t.TempDir(), &logBook{}
	b := start(t, Options{Dir: dir, Logger: log.logger(), WatchInterval: 10 * time.Millisecond, repairEvery: 10 * time.Millisecond, scrubEvery: 20 * time.Millisecond})
	want := store(t, b, 100)
	// A record's length: the server would cut off all that follows.
	edit(t, blockOf(dir, "INGEST_birch", 1), func(d []byte) []byte {
		at := len(d) / 100 * 40
		for i := range 64 {
			d[at+i] ^= 0x55
		}
		return d
	})
	got := map[uint64]string{}
	in, _ := consumeInto(t, b)
	require.Eventually(t, func() bool {
		for _, d := range in.list() {
			got[seqOf(d.Position())] = string(d.Chunk().Body)
		}
		lost := testutil.ToFloat64(b.metrics.lost.WithLabelValues("birch"))
		// What the server had in memory may have come, and be told as lost all the same.
		return lost > 0 && len(got)+int(lost) >= 100
	}, time.Minute, 10*time.Millisecond, "%s", log)
	require.GreaterOrEqual(t, len(got), 98)
	for seq, body := range got {
		require.Equal(t, want[seq-1], body)
	}
	require.Contains(t, log.text(), "damage on disk")
	require.EqualValues(t, 101, seqOf(putOnce(t, b, "birch", "next")))
}

// Dead letters are looked at before they are read, however long ago that was done
// by itself: the server would give up all that are in a damaged file.
func TestDamagedDeadLettersInUse(t *testing.T) {
	for name, read := range map[string]func(ctx context.Context, of mq.DeadLetterStore, id string) error{
		"listed": func(ctx context.Context, of mq.DeadLetterStore, _ string) error {
			_, err := of.List(ctx, "t", 100, "")
			return err
		},
		"shown": func(ctx context.Context, of mq.DeadLetterStore, id string) error {
			_, _, err := of.Get(ctx, id)
			return err
		},
		"discarded": func(ctx context.Context, of mq.DeadLetterStore, id string) error {
			_, err := of.Discard(ctx, id)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			b := start(t, Options{Dir: dir, WatchInterval: 10 * time.Millisecond, repairEvery: 10 * time.Millisecond, scrubEvery: time.Hour})
			for n := range 24 {
				require.NoError(t, b.Park(t.Context(), mqtest.Letter("birch", "t", fmt.Sprint("row ", n))))
			}
			letters, err := b.DeadLetters("birch")
			require.NoError(t, err)
			page, err := letters.List(t.Context(), "t", 100, "")
			require.NoError(t, err)
			require.Len(t, page.Letters, 24)
			edit(t, blockOf(dir, "DLQ_birch", 1), func(d []byte) []byte { clear(d[:64]); return d })
			require.ErrorIs(t, read(t.Context(), letters, page.Letters[23].ID), mq.ErrUnavailable)
			require.Eventually(t, func() bool {
				page, err = letters.List(t.Context(), "t", 100, "")
				return err == nil
			}, time.Minute, 10*time.Millisecond)
			require.Len(t, page.Letters, 23)
			require.Eventually(t, func() bool {
				return testutil.ToFloat64(b.metrics.lostLetters.WithLabelValues("birch")) == 1
			}, time.Minute, 10*time.Millisecond)
		})
	}
}

// A reader that is faster than the queue's reopening finds the holes that the repair
// has told of already: they are told once, and nobody waits for them.
func TestLossIsToldOnceThoughReadBeforeReopening(t *testing.T) {
	t.Parallel()
	b := start(t, Options{Dir: t.TempDir()})
	store(t, b, 6)
	q, stream := b.queue("birch"), ingestStream("birch")
	count := func() int { return int(testutil.ToFloat64(b.metrics.lost.WithLabelValues("birch"))) }
	b.host.inspector.report(stream, blocks.Report{Lost: ledger.Ranges{{Lo: 2, Hi: 3}}},
		mq.Damage{Tenant: "birch", Store: mq.StoreQueue, Found: time.Now()})
	b.countDamage()
	require.Equal(t, 2, count())

	q.lose(q.generation, ledger.Range{Lo: 2, Hi: 3})
	require.Equal(t, 2, count(), "the same")
	q.lose(q.generation, ledger.Range{Lo: 2, Hi: 4})
	require.Equal(t, 3, count(), "one more")
	require.True(t, q.acked.Done(4))
	require.Equal(t, ledger.Ranges{{Lo: 2, Hi: 3}}, b.host.inspector.takeLost(stream), "the reopening skips them")
}
