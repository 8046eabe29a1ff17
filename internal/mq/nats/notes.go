package nats

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
)

var _ mq.Batches = (*Broker)(nil)

const (
	// maxNote bounds what is noted of one shard, in bytes, and maxNotes of all
	// together: the bucket is that of the leases, which must find room.
	maxNote  = 256 << 10
	maxNotes = 16 << 20
	// maxNoted bounds the chunks of a run in a record.
	maxNoted = 1 << 20
	// notesPatience is how long a shard waits for what was noted by its former
	// owner, and noteTimeout bounds one try to read or write that.
	notesPatience = 10 * time.Second
	noteTimeout   = ackTimeout
)

// notes are what the worker is writing of a shard: a key of the bucket, where the
// shard's next owner finds it. Each is written over the revision before, so that an
// owner that was taken for dead changes nothing. A note is there before the INSERT;
// that it succeeded, before the first of several acknowledgements; and it is gone
// soon after the last.
type notes struct {
	b   *Broker
	at  place
	key string
	// me tells this owner's writes from another's.
	me []byte
	// dirty asks for a write that nobody waits for.
	dirty chan struct{}

	mu      sync.Mutex
	batches []mq.Batch
	// version counts changes of batches. err says why they were not read.
	version uint64
	err     error

	// writing is held for a write, which takes what all tables noted meanwhile. It
	// guards what follows.
	writing sync.Mutex
	// tried is the version of the last write, and failed what became of it.
	tried  uint64
	failed error
	// revision is the key's; it is looked up again once a write is in doubt.
	revision uint64
	doubt    bool
}

func newNotes(b *Broker, at place, term uint64) *notes {
	n := &notes{b: b, at: at, dirty: make(chan struct{}, 1)}
	if b.o.Names.Bucket != "" {
		n.key = "writing." + at.String()
	}
	n.me = fmt.Appendf(nil, "%s.%d", b.self, term)
	return n
}

// Note implements mq.Batches. It waits for the bucket.
func (b *Broker) Note(batch mq.Batch) error {
	if err := b.life.Enter(); err != nil {
		return err
	}
	defer b.life.Leave()
	_, at := b.of(batch.Topic)
	s := b.shardAt(at)
	if s == nil || s.lost.Load() {
		return fmt.Errorf("note a batch: %w: %s", mq.ErrRevoked, at)
	}
	if err := s.notes.add(batch); err != nil {
		return fmt.Errorf("note a batch of table %q of tenant %s: %w", batch.Table, batch.Tenant, err)
	}
	return nil
}

// Noted implements mq.Batches.
func (b *Broker) Noted(s mq.Shard) ([]mq.Batch, error) {
	ctx, done, err := b.life.Begin(context.Background())
	if err != nil {
		return nil, err
	}
	defer done()
	at, err := parsePlace(s.Name)
	if err != nil {
		return nil, err
	}
	if own := b.shardAt(at); own != nil && own.term == s.Term {
		return own.notes.list()
	}
	ctx, cancel := context.WithTimeout(ctx, noteTimeout)
	defer cancel()
	n := newNotes(b, at, 0)
	err = n.read(ctx)
	return n.batches, err
}

// take reads what the former owner noted, and makes the key this one's.
func (n *notes) take(ctx context.Context) {
	if n.key == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, notesPatience)
	defer cancel()
	n.writing.Lock()
	defer n.writing.Unlock()
	for {
		err := n.claim(ctx)
		n.mu.Lock()
		n.err = err
		n.mu.Unlock()
		if err == nil || ctx.Err() != nil {
			return
		}
		pause(ctx, pullPause)
	}
}

func (n *notes) claim(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, noteTimeout)
	defer cancel()
	if err := n.read(ctx); err != nil {
		return err
	}
	value, _, err := n.encode()
	if err != nil {
		return err
	}
	// Where what was read is no longer so, this fails.
	n.revision, err = n.b.writeKey(ctx, n.key, value, n.revision)
	return err
}

// read takes over what is noted, by whomever.
func (n *notes) read(ctx context.Context) error {
	if n.key == "" {
		return nil
	}
	value, revision, err := n.b.readKey(ctx, n.key)
	if err != nil {
		return err
	}
	batches, err := decodeNotes(value)
	if err != nil {
		n.b.log.Error("what was being written is not known; rows of it may be written twice", "key", n.key, "error", err)
	}
	n.revision = revision
	n.mu.Lock()
	defer n.mu.Unlock()
	n.batches = batches
	return nil
}

func (n *notes) list() ([]mq.Batch, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []mq.Batch
	for _, b := range n.batches {
		b.Rows = slices.Clone(b.Rows)
		all = append(all, b)
	}
	return all, n.err
}

func (n *notes) add(batch mq.Batch) error {
	if n.key == "" {
		return nil
	}
	batch.Rows = slices.Clone(batch.Rows)
	n.mu.Lock()
	n.batches = mq.NoteBatch(n.batches, batch)
	n.version++
	n.mu.Unlock()
	return n.keep()
}

// settle notes, before the first of several chunks of a batch is acknowledged, that
// all of them are done with.
func (n *notes) settle(acked map[mq.Position]bool) {
	n.mu.Lock()
	changed := false
	for i, b := range n.batches {
		if !b.Settled && len(b.Rows) > 1 && slices.ContainsFunc(b.Rows, func(r mq.Rows) bool { return acked[r.Chunk] }) {
			n.batches[i].Settled, changed = true, true
		}
	}
	if changed {
		n.version++
	}
	n.mu.Unlock()
	if !changed {
		return
	}
	if err := n.keep(); err != nil {
		n.b.log.Warn("what is written cannot be noted; a kill now may write it twice", "shard", n.at.String(), "error", err)
	}
}

// done forgets chunks that are acknowledged; the bucket hears of it soon.
func (n *notes) done(acked map[mq.Position]bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, b := range n.batches {
		left := slices.DeleteFunc(b.Rows, func(r mq.Rows) bool { return acked[r.Chunk] })
		if len(left) < len(b.Rows) {
			n.batches[i].Rows, n.batches[i].Settled = left, true
			n.version++
			poke(n.dirty)
		}
	}
	n.batches = slices.DeleteFunc(n.batches, func(b mq.Batch) bool { return len(b.Rows) == 0 })
}

// tidy writes what nobody waits for, until ctx ends.
func (n *notes) tidy(ctx context.Context) {
	for {
		select {
		case <-n.dirty:
		case <-ctx.Done():
			n.flush()
			return
		}
		_ = n.keep() // the next write says it, too
	}
}

// flush writes what is not written yet.
func (n *notes) flush() {
	select {
	case <-n.dirty:
		if err := n.keep(); err != nil {
			n.b.log.Warn("what was written is still noted; the next owner of the shard waits for it in vain for a while", "shard", n.at.String(), "error", err)
		}
	default:
	}
}

// keep returns once the bucket has what is noted now, or did not take it.
func (n *notes) keep() error {
	n.mu.Lock()
	want := n.version
	n.mu.Unlock()
	n.writing.Lock()
	defer n.writing.Unlock()
	if n.tried >= want {
		return n.failed
	}
	value, version, err := n.encode()
	if err == nil {
		err = n.put(value)
	}
	n.tried, n.failed = version, err
	return err
}

func (n *notes) put(value []byte) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), noteTimeout)
	defer cancel()
	for range 2 {
		if n.doubt {
			kept, revision, err := n.b.readKey(ctx, n.key)
			switch owner, _, _ := bytes.Cut(kept, []byte{0}); {
			case err != nil:
				return err
			case revision > 0 && !bytes.Equal(owner, n.me):
				return fmt.Errorf("%w: key %s is of owner %q", mq.ErrRevoked, n.key, owner)
			}
			n.revision, n.doubt = revision, false
		}
		var revision uint64
		if revision, err = n.b.writeKey(ctx, n.key, value, n.revision); err == nil {
			n.revision = revision
			return nil
		}
		n.doubt = true
	}
	return err
}

// encode is who writes, a zero, and each batch with its length before it.
func (n *notes) encode() (value []byte, version uint64, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	value = append(slices.Clone(n.me), 0)
	for i := range n.batches {
		record := jetstream.EncodeBatch(&n.batches[i])
		value = append(binary.AppendUvarint(value, uint64(len(record))), record...)
	}
	if most := min(maxNote, maxNotes/len(n.b.parts)/n.b.o.Shards); len(value) > most {
		return nil, n.version, fmt.Errorf("what is being written takes %d bytes: %d is the most that is noted of a shard", len(value), most)
	}
	return value, n.version, nil
}

func decodeNotes(value []byte) (batches []mq.Batch, err error) {
	_, rest, _ := bytes.Cut(value, []byte{0})
	for len(rest) > 0 {
		size, read := binary.Uvarint(rest)
		if read <= 0 || size > uint64(len(rest)-read) {
			return nil, errors.New("notes end within a record")
		}
		batch, ok := jetstream.DecodeBatch(rest[read:read+int(size)], maxNoted)
		if !ok {
			return nil, errors.New("unreadable record of notes of " + strconv.Itoa(len(value)) + " bytes")
		}
		batches, rest = append(batches, batch), rest[read+int(size):]
	}
	return batches, nil
}

// byShard sorts deliveries for the notes of their shards.
func byShard(ds []*delivery) map[*shard]map[mq.Position]bool {
	all := map[*shard]map[mq.Position]bool{}
	for _, d := range ds {
		if all[d.shard] == nil {
			all[d.shard] = make(map[mq.Position]bool, len(ds))
		}
		all[d.shard][d.pos] = true
	}
	return all
}
