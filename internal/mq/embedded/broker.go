// Package embedded is the broker that lives in the process: a NATS server
// that listens on no port, whose JetStream keeps a pair of streams per tenant
// on disk and syncs every message before it is answered.
//
// What the worker has acknowledged is kept by the broker itself, in a ledger
// per tenant, and deliveries are read from the streams by sequence: so an
// acknowledgement holds from the moment it returns, what was not acknowledged
// is delivered again right after a restart, and a tenant costs no consumer.
package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/wavehouse/wavehouse/internal/lifetime"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/embedded/ledger"
	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// What the broker can do.
var (
	_ mq.Broker  = (*Broker)(nil)
	_ mq.Budgets = (*Broker)(nil)
	_ mq.Purger  = (*Broker)(nil)
	_ mq.Floors  = (*Broker)(nil)
	_ mq.Faults  = (*Broker)(nil)
)

// Broker is the embedded mq.Broker.
type Broker struct {
	o       Options
	log     *slog.Logger
	acksDir string
	lock    *os.File
	host    *host
	reads   *jetstream.Reader
	pubs    *jetstream.Publisher
	feeds   *feeds
	space   *space
	metrics *metrics
	batches batches

	// life counts operations; ctx is its own, and ends when Close begins. tasks
	// are the broker's own goroutines.
	life  *lifetime.Life
	ctx   context.Context
	tasks sync.WaitGroup

	// gate is held for reading by every send, and for writing while the
	// streams are reopened.
	gate sync.RWMutex
	// reopening refuses what would wait long at the gate.
	reopening atomic.Bool
	// stale is set when answers were lost with a connection.
	stale atomic.Bool
	// settled is when to look once more after that, in Unix nanoseconds; 0 for
	// never.
	settled atomic.Int64
	// hurt is set when files were found damaged while they are in use: the
	// store is then opened again, which repairs them.
	hurt atomic.Bool
	// unwritable is why the server could not write, until the store is opened
	// again; failedWrite wakes who looks after that.
	unwritable  atomic.Pointer[error]
	failedWrite chan struct{}
	// recent and ahead count the bytes kept for consumers.
	recent, ahead atomic.Int64

	mu     sync.Mutex
	queues map[tenant.ID]*queue
	// asked are the budgets of tenants that have no queue yet.
	asked    map[tenant.ID]int64
	consumer *consumption
	// terms counts consumptions.
	terms uint64
}

// New opens the store in o.Dir, with every queue that has data, and starts
// the broker's goroutines; Close ends them. A queue that cannot be opened is
// reported by Status and costs its tenant alone.
func New(o Options) (*Broker, error) {
	o = o.withDefaults()
	b := &Broker{o: o, log: o.Logger, acksDir: filepath.Join(o.Dir, acksFolder),
		life: lifetime.New(mq.ErrClosed), queues: map[tenant.ID]*queue{}, asked: map[tenant.ID]int64{}, failedWrite: make(chan struct{}, 1)}
	b.ctx = b.life.Context()
	if err := b.start(); err != nil {
		_ = b.life.End(context.Background()) // nothing has begun
		b.release()
		return nil, fmt.Errorf("open queue in %s: %w", o.Dir, err)
	}
	return b, nil
}

func (b *Broker) start() (err error) {
	if err := os.MkdirAll(b.acksDir, 0o700); err != nil {
		return err
	}
	if b.lock, err = lockDir(b.o.Dir); err != nil {
		return err
	}
	if err := ledger.RemoveTemp(b.acksDir); err != nil {
		return err
	}
	b.space = newSpace(b.o, b.log)
	if b.host, err = startHost(b.o, b.onDisconnect, b.writeFailed); err != nil {
		return err
	}
	if b.reads, err = jetstream.NewReader(b.host.api); err != nil {
		return err
	}
	b.feeds = &feeds{}
	if b.pubs, err = jetstream.NewPublisher(b.host.pub); err != nil {
		return err
	}
	if err := b.recover(b.ctx); err != nil {
		return err
	}
	if err := b.openBatches(); err != nil {
		return err
	}
	if b.metrics, err = newMetrics(b, b.o.Registerer); err != nil {
		return err
	}
	b.countDamage()
	b.tasks.Go(b.supervise)
	b.tasks.Go(b.scrub)
	return nil
}

// release gives back what start took.
func (b *Broker) release() {
	if b.host != nil {
		b.host.close()
	}
	if b.lock != nil {
		_ = b.lock.Close()
	}
}

// recover opens every queue that has data on disk.
func (b *Broker) recover(ctx context.Context) error {
	infos, err := b.host.listStreams(ctx)
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, info := range infos {
		known[info.Config.Name] = true
		if t, ok := tenantOf(info.Config.Name, ingestPrefix); ok {
			q := b.queueLocked(t)
			q.recovered(&q.ingest, q.adoptIngest(ctx, info))
		} else if t, ok := tenantOf(info.Config.Name, letterPrefix); ok {
			q := b.queueLocked(t)
			q.recovered(&q.letters, q.adoptLetters(ctx, info))
		}
	}
	return b.reportUnopened(ctx, known)
}

func (q *queue) recovered(o *opening, err error) {
	if err != nil {
		q.log.Error("queue cannot be opened", "error", err)
		at := q.b.o.Now()
		o.tried.Store(&at)
		o.err.Store(&err)
		return
	}
	o.open.Store(true)
}

// reportUnopened finds folders of streams that the server did not open, and
// tries them once so that the queue knows why.
func (b *Broker) reportUnopened(ctx context.Context, known map[string]bool) error {
	names, err := b.host.foldersOnDisk()
	if err != nil {
		return err
	}
	for _, name := range names {
		if known[name] {
			continue
		}
		if t, ok := tenantOf(name, ingestPrefix); ok {
			_ = b.queueLocked(t).openIngest(ctx, true) // remembered and logged
		} else if t, ok := tenantOf(name, letterPrefix); ok {
			_ = b.queueLocked(t).openLetters(ctx, true) // remembered and logged
		}
	}
	return nil
}

// queueLocked returns the tenant's queue, and makes it known. It may be
// called without mu only before the broker is shared.
func (b *Broker) queueLocked(t tenant.ID) *queue {
	q := b.queues[t]
	if q == nil {
		q = newQueue(b, t)
		q.budget.Store(cmp.Or(b.asked[t], b.o.DefaultBudget))
		b.queues[t] = q
		delete(b.asked, t)
	}
	return q
}

func (b *Broker) queue(t tenant.ID) *queue {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.queueLocked(t)
}

// known returns the tenant's queue if there is one.
func (b *Broker) known(t tenant.ID) (*queue, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	q, ok := b.queues[t]
	return q, ok
}

// all returns the queues in the order of their tenants.
func (b *Broker) all() []*queue {
	b.mu.Lock()
	out := make([]*queue, 0, len(b.queues))
	for _, q := range b.queues {
		out = append(out, q)
	}
	b.mu.Unlock()
	slices.SortFunc(out, func(x, y *queue) int { return cmp.Compare(x.tenant, y.tenant) })
	return out
}

// Close ends deliveries and feeds, waits for publishes under way until ctx
// ends, and closes the store. Consumptions that were not stopped fail with
// mq.ErrClosed.
func (b *Broker) Close(ctx context.Context) error {
	if err := b.life.Close(); err != nil {
		return err
	}
	b.mu.Lock()
	c := b.consumer
	b.mu.Unlock()
	var errs []error
	if c != nil {
		errs = append(errs, c.end(ctx, mq.ErrClosed))
	}
	errs = append(errs, b.life.End(ctx))
	b.tasks.Wait() // it may be restarting the server
	b.feeds.closeAll()
	b.pubs.Fail(fmt.Errorf("%w: %w", mq.ErrOutcomeUnknown, mq.ErrClosed))
	b.host.close()
	for _, q := range b.all() {
		errs = append(errs, q.close())
	}
	errs = append(errs, b.batches.file.Close())
	b.metrics.Unregister()
	errs = append(errs, b.lock.Close())
	return errors.Join(errs...)
}
