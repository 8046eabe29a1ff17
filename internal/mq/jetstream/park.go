package jetstream

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// parkBatch and parkBatchBytes bound the letters that become durable together,
// all or none, with one sync of the disk. The server takes at most 1,000.
const (
	parkBatch      = 1000
	parkBatchBytes = 8 << 20
)

// letterOverhead is what the stream adds to a message.
const letterOverhead = 64

// Park stores letters and says how many, and how many older ones the stream
// dropped for them to stay within its limit. When it fails some may be stored.
func (l *Letters) Park(ctx context.Context, letters []mq.DeadLetter) (parked, dropped uint64, err error) {
	err = l.Alone(ctx, func() error {
		before, err := Info(ctx, l.JS, l.Stream)
		if err != nil {
			return fmt.Errorf("%w: %w", mq.ErrUnavailable, err)
		}
		most := before.Config.MaxBytes
		if most <= 0 {
			most = math.MaxInt64
		}
		if err := l.roomFor(letters, before.State.Bytes, most); err != nil {
			return err
		}
		parked, err = l.store(ctx, letters, most, batchSize(before.Config.AllowAtomicPublish))
		if !l.Shared { // else what is missing may be discarded
			dropped = l.dropped(ctx, before.State.Msgs+parked)
		}
		return err
	})
	return parked, dropped, err
}

// roomFor refuses letters that ask to push nothing out and would.
func (l *Letters) roomFor(letters []mq.DeadLetter, taken uint64, most int64) error {
	if !slices.ContainsFunc(letters, func(l mq.DeadLetter) bool { return l.KeepOlder }) {
		return nil
	}
	size := int64(taken)
	for i := range letters {
		_, n := l.message(&letters[i])
		size += n
	}
	if size > most {
		return fmt.Errorf("%w: the dead letters take %d bytes of %d, and %d rows do not fit", mq.ErrFull, taken, most, len(letters))
	}
	return nil
}

// message encodes a letter, and says what it takes in the stream. A raw message
// that would not fit is cut, as it is in nobody's way then.
func (l *Letters) message(letter *mq.DeadLetter) (*nats.Msg, int64) {
	if most := l.MaxPayload() - letterReserve; letter.Version == "" && int64(len(letter.Row)) > most {
		cut := *letter
		cut.Row = letter.Row[:most]
		cut.Error = fmt.Sprintf("%d of its %d bytes are kept: %s", most, len(letter.Row), letter.Error)
		letter = &cut
	}
	m := &nats.Msg{Subject: Subject(l.Prefix, letter.Topic), Header: EncodeLetter(letter), Data: letter.Row}
	return m, int64(Size(m.Subject, m.Header, m.Data)) + letterOverhead
}

// letterReserve is the most that a letter's headers take beside those of its
// chunk: both texts of MaxErrorBytes, escaped, and little else.
const letterReserve = 32 << 10

// MaxChunk is what a chunk's body and headers may take where the server takes
// maxPayload, such that a letter that holds all of it fits too.
func MaxChunk(maxPayload int64) int {
	return int(min(mq.MaxChunkBytes, maxPayload-letterReserve))
}

// batchSize is how many letters are stored together, one where the stream takes no
// batches.
func batchSize(batches bool) int {
	if batches {
		return parkBatch
	}
	return 1
}

// store stores letters in batches, one after the other.
func (l *Letters) store(ctx context.Context, letters []mq.DeadLetter, most int64, size int) (parked uint64, err error) {
	for len(letters) > 0 {
		batch, err := l.nextBatch(letters[:min(size, len(letters))], most)
		if err != nil {
			return parked, err
		}
		if err := l.storeBatch(ctx, batch); err != nil {
			return parked, err
		}
		parked += uint64(len(batch))
		letters = letters[len(batch):]
	}
	return parked, nil
}

// nextBatch encodes the letters of the next batch, at least one.
func (l *Letters) nextBatch(letters []mq.DeadLetter, most int64) ([]*nats.Msg, error) {
	var batch []*nats.Msg
	var bytes int64
	for i := range letters {
		if letters[i].At.IsZero() {
			letters[i].At = l.Now()
		}
		m, size := l.message(&letters[i])
		if size > most && i == 0 {
			return nil, fmt.Errorf("%w: a dead letter of %d bytes, their share is %d", mq.ErrFull, size, most)
		}
		if size > most || (i > 0 && bytes+size > parkBatchBytes) {
			break // those before it are stored first
		}
		bytes += size
		batch = append(batch, m)
	}
	mark(batch)
	return batch, nil
}

// Headers of a batch that the server stores as one.
const (
	headerBatch       = "Nats-Batch-Id"
	headerBatchSeq    = "Nats-Batch-Sequence"
	headerBatchCommit = "Nats-Batch-Commit"
)

// mark makes one batch of several messages.
func mark(batch []*nats.Msg) {
	if len(batch) < 2 {
		return
	}
	id := rand.Text()
	for i, m := range batch {
		m.Header[headerBatch] = []string{id}
		m.Header[headerBatchSeq] = []string{strconv.Itoa(i + 1)}
	}
	batch[len(batch)-1].Header[headerBatchCommit] = []string{"1"}
}

// storeBatch sends a batch, whose last message is answered for all of them.
// When it fails the server forgets those that it got.
func (l *Letters) storeBatch(ctx context.Context, batch []*nats.Msg) error {
	last := len(batch) - 1
	for _, m := range batch[:last] {
		if err := l.Send.SendPart(m); err != nil {
			return err
		}
	}
	e := NewPending(l.Stream, nil)
	if err := l.Send.Send(ctx, batch[last], &e); err != nil {
		return err
	}
	o := e.Await(ctx, l.Timeout)
	if o.Err == nil && l.Stored != nil {
		l.Stored(o.Seq)
	}
	return o.Err
}

// dropped counts the letters that the stream dropped: want is what it would
// hold otherwise.
func (l *Letters) dropped(ctx context.Context, want uint64) uint64 {
	info, err := Info(context.WithoutCancel(ctx), l.JS, l.Stream)
	if err != nil || info.State.Msgs >= want {
		return 0
	}
	n := want - info.State.Msgs
	l.Log.Warn("dead letters are full: the oldest are dropped", "dropped", n, "kept", info.State.Msgs,
		"budget", info.Config.MaxBytes, "at", l.Now().UTC().Format(time.RFC3339))
	return n
}
