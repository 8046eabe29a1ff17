package embedded

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/semaphore"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/embedded/ledger"
	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// queue is one tenant's pair of streams and what the broker knows of them.
// It exists from the first use of the tenant; the streams do not.
//
// Lock order: ingest.turn, letters.turn, the store's, the broker's gate, ackMu, feedMu, the
// broker's mu, mu, and last the traffic's, the allowance's, the publisher's and a feed's own.
// None is held while another queue's is taken.
type queue struct {
	tenant tenant.ID
	b      *Broker
	log    *slog.Logger
	// inFlight bounds the bodies sent and not yet answered.
	inFlight *semaphore.Weighted

	ingest, letters opening
	// store is of use once letters is open.
	store *jetstream.Letters

	// budget is what was asked for, applied what the streams have; 0 until one
	// is open.
	budget, applied atomic.Int64

	// ackMu serialises acknowledgements and purges, and guards ledger.
	ackMu  sync.Mutex
	ledger *ledger.Ledger
	// What was answered for of each stream.
	ingestMark, letterMark mark
	// letterRemoved notes how many letters were removed.
	letterRemoved mark

	// feedMu guards the order in which feeds see the stream: fed is the next
	// sequence they are to see, filling that a goroutine reads the ones
	// before target from the stream.
	feedMu  sync.Mutex
	fed     uint64
	target  uint64
	filling bool

	traffic traffic

	mu    sync.Mutex
	epoch uint64
	// generation counts openings: what was read before one is not to be used
	// after it.
	generation uint64
	// first is the oldest sequence kept, last the newest known, inherited the
	// newest when this process opened the stream first.
	first, last, inherited uint64
	// acked has everything acknowledged: floor and what is above it.
	acked ledger.Acked
	// removed is what was removed above first, where something before it is not
	// acknowledged; removedTo is the newest of it.
	removed   ledger.Ranges
	removedTo uint64
	// waiting is what is not acknowledged, by table.
	waiting waiting
	// noted is what was being written, until it is acknowledged.
	noted []mq.Batch
	// source delivers to the worker; nil without a Consume.
	source *source
	// oldest remembers when the sequence oldestSeq was stored.
	oldestSeq uint64
	oldest    time.Time
}

// opening is the state of one stream: open or not, and why not.
type opening struct {
	open atomic.Bool
	turn chan struct{}
	// err is why the last attempt failed, made at tried.
	tried atomic.Pointer[time.Time]
	err   atomic.Pointer[error]
}

func (o *opening) failure() error {
	if p := o.err.Load(); p != nil {
		return *p
	}
	return nil
}

func newQueue(b *Broker, t tenant.ID) *queue {
	q := &queue{
		tenant: t, b: b,
		log:      b.log.With("tenant", string(t)),
		inFlight: semaphore.NewWeighted(maxInFlight),
	}
	q.store = jetstream.NewLetters(jetstream.LettersOptions{
		JS: b.host.js, Reads: b.reads, Send: b.gated(), Stream: letterStream(t), Prefix: letterSubjects,
		MaxPayload: b.host.pub.MaxPayload, Timeout: b.o.PublishTimeout, Now: b.o.Now, Log: q.log,
		Stored: func(seq uint64) { q.letterMark.reach(q, seq) },
	})
	q.ingest.turn = make(chan struct{}, 1)
	q.letters.turn = make(chan struct{}, 1)
	return q
}

// openIngest opens the ingest stream unless it is, creating it if need be.
// After a failure the next attempt is made no sooner than the open interval
// later, unless now is true; callers meanwhile get the same error.
func (q *queue) openIngest(ctx context.Context, now bool) error {
	if q.ingest.open.Load() {
		return nil
	}
	err := q.open(ctx, &q.ingest, now, func() error {
		info, err := q.obtain(ctx, ingestConfig(q.tenant, q.budget.Load(), q.b.o.DuplicateWindow))
		if err != nil {
			return err
		}
		return q.adoptIngest(ctx, info)
	})
	if err == nil {
		q.b.deliver(q)
	}
	return err
}

// openLetters is openIngest for the dead-letter stream.
func (q *queue) openLetters(ctx context.Context, now bool) error {
	return q.open(ctx, &q.letters, now, func() error {
		info, err := q.obtain(ctx, letterConfig(q.tenant, q.current()))
		if err != nil {
			return err
		}
		return q.adoptLetters(ctx, info)
	})
}

// adoptLetters takes over the dead-letter stream. One that was made before
// letters were stored in batches learns to take them.
func (q *queue) adoptLetters(ctx context.Context, info *natsjs.StreamInfo) error {
	q.letterMark.open(q, info.Config.Name, uint64(info.Created.UnixNano()), info.State.LastSeq)
	q.letterRemoved.open(q, removedMark(info.Config.Name), uint64(info.Created.UnixNano()), info.State.LastSeq-info.State.Msgs)
	if !info.Config.AllowAtomicPublish {
		cfg := letterConfig(q.tenant, 0)
		cfg.MaxBytes = info.Config.MaxBytes
		return q.b.host.update(context.WithoutCancel(ctx), cfg)
	}
	return nil
}

func (q *queue) open(ctx context.Context, o *opening, now bool, attempt func() error) error {
	if o.open.Load() {
		return nil
	}
	select {
	case o.turn <- struct{}{}:
		defer func() { <-o.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if o.open.Load() {
		return nil
	}
	at := q.b.o.Now()
	if failed := o.failure(); failed != nil && !now && at.Sub(*o.tried.Load()) < q.b.o.OpenInterval {
		return failed
	}
	o.tried.Store(&at)
	if err := attempt(); err != nil {
		q.log.Error("queue cannot be opened", "error", err)
		o.err.Store(&err)
		return err
	}
	o.err.Store(nil)
	o.open.Store(true)
	return nil
}

// obtain returns the stream as the server has it, or creates it.
func (q *queue) obtain(ctx context.Context, cfg natsjs.StreamConfig) (*natsjs.StreamInfo, error) {
	info, err := jetstream.Info(context.WithoutCancel(ctx), q.b.host.js, cfg.Name)
	if errors.Is(err, natsjs.ErrStreamNotFound) {
		return q.b.host.create(ctx, cfg)
	}
	return info, err
}

// adoptIngest takes over the stream's state: at first opening, and again
// whenever the streams were reopened below.
func (q *queue) adoptIngest(ctx context.Context, info *natsjs.StreamInfo) error {
	q.ackMu.Lock()
	defer q.ackMu.Unlock()
	epoch := uint64(info.Created.UnixNano())
	state, err := q.loadAcked(epoch, info)
	if err != nil {
		return err
	}
	removed, err := q.b.host.removed(ctx, info)
	if err != nil {
		return err
	}
	lost := q.b.host.inspector.takeLost(info.Config.Name)
	q.forgo(lost, &state)
	q.ingestMark.open(q, info.Config.Name, epoch, info.State.LastSeq)
	q.applied.Store(info.Config.MaxBytes)
	q.mu.Lock()
	again := q.epoch == epoch
	q.epoch, q.first, q.last = epoch, info.State.FirstSeq, info.State.LastSeq
	if !again {
		q.inherited = q.last
	}
	q.acked, q.removed = state, removed
	q.removedTo = removed.Highest()
	q.generation++
	if q.source != nil {
		for _, s := range lost {
			q.source.ackedLocked(s)
		}
		q.source.resetLocked(!again)
	}
	last := q.last
	q.mu.Unlock()
	q.traffic.forget(last)
	q.adoptFeed(last, again)
	return nil
}

// current is the budget that is applied, or will be.
func (q *queue) current() int64 {
	if applied := q.applied.Load(); applied > 0 {
		return applied
	}
	return q.budget.Load()
}

func (q *queue) position(seq uint64) mq.Position {
	q.mu.Lock()
	defer q.mu.Unlock()
	return mq.NewPosition(q.epoch, seq)
}

// stands returns the stream's epoch and the newest sequence known.
func (q *queue) stands() (epoch, last uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.epoch, q.last
}
