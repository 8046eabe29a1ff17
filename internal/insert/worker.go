// Package insert writes the queue's chunks to ClickHouse: the Worker takes them
// off the queue, gathers them into batches per table and inserts them; rows that
// ClickHouse refuses become dead letters.
package insert

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/wavehouse/wavehouse/internal/chunk"
	"github.com/wavehouse/wavehouse/internal/fairshare"
	"github.com/wavehouse/wavehouse/internal/mq"
)

// Worker takes chunks off the queue, gathers them per table and inserts them.
// A chunk is held from its delivery until it is acknowledged or handed back; its
// rows are then written or parked, or still in the queue.
type Worker struct {
	o       WorkerOptions
	memory  *fairshare.Bytes
	chunks  *chunk.Opener
	pools   *poolBackoffs
	metrics *workerMetrics

	started chan struct{} // closed when consumption is set
	batches sync.WaitGroup
	// work is the context of INSERTs and parking; it outlives Run's context by
	// the drain. It and consumption are set before anything reads them.
	work        context.Context
	consumption mq.Consumption

	mu       sync.Mutex
	batchers map[mq.Topic]*batcher
	held     map[heldKey]*held
	unacked  map[heldKey]struct{}
	shards   map[mq.Shard]struct{} // those that are assigned
	resumed  map[mq.Topic]*resumption
	progress *progress
	stopping bool // Run's context has ended
	draining bool
	totals   totals
	// left is told when a batcher has less to do.
	left *sync.Cond
}

type totals struct{ inserted, parked uint64 }

// NewWorker builds a Worker; Run does the work.
func NewWorker(o WorkerOptions) *Worker {
	o = o.withDefaults()
	w := &Worker{
		o:        o,
		memory:   fairshare.New(o.MaxHeldPerTenant, o.MaxHeld),
		chunks:   chunk.NewOpener(),
		pools:    newPoolBackoffs(o.BackoffMin, o.BackoffMax),
		started:  make(chan struct{}),
		batchers: make(map[mq.Topic]*batcher),
		held:     make(map[heldKey]*held),
		unacked:  make(map[heldKey]struct{}),
		shards:   make(map[mq.Shard]struct{}),
		resumed:  make(map[mq.Topic]*resumption),
		progress: newProgress(),
	}
	w.left = sync.NewCond(&w.mu)
	w.metrics = newWorkerMetrics(o.Metrics, w)
	return w
}

// Run works until ctx ends, then writes what is held once, within
// DrainTimeout. What is left stays in the queue. It returns an error when the
// queue's delivery ends on its own. A Worker runs once.
func (w *Worker) Run(ctx context.Context) error {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	w.work = work
	consumption, err := w.o.Broker.Consume(work, mq.Work{Assigned: w.assigned, Deliver: w.deliver, Revoked: w.revoked})
	if err != nil {
		return fmt.Errorf("consuming the queue: %w", err)
	}
	w.consumption = consumption
	close(w.started)
	extending := make(chan struct{})
	go func() {
		defer close(extending)
		w.extendLoop(work)
	}()
	failed := w.serve(ctx, consumption)
	stopped := w.drain(cancel)
	cancel()
	<-extending
	return errors.Join(failed, stopped)
}

// serve waits for the end: ctx's, or that of the delivery.
func (w *Worker) serve(ctx context.Context, c mq.Consumption) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-c.Failed():
		return fmt.Errorf("the queue's delivery ended: %w", err)
	}
}

// drain stops delivery and gives what is held one attempt, within the time
// there is; giveUp ends the attempts that are then still running.
func (w *Worker) drain(giveUp context.CancelFunc) error {
	timer := time.AfterFunc(w.o.DrainTimeout, giveUp)
	defer timer.Stop()
	w.mu.Lock()
	w.stopping = true
	for _, b := range w.batchers {
		b.stop()
	}
	w.mu.Unlock()
	err := w.consumption.Stop(w.work)
	w.flushAll()
	w.batches.Wait()
	if err != nil {
		return fmt.Errorf("stopping delivery: %w", err)
	}
	return nil
}

func (w *Worker) flushAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.draining = true
	for _, b := range w.batchers {
		w.schedule(b)
	}
}
