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

	"github.com/klauspost/compress/zstd"

	"github.com/wavehouse/wavehouse/internal/fairshare"
	"github.com/wavehouse/wavehouse/internal/mq"
)

// maxUnacked bounds what is remembered of chunks that are written but whose
// acknowledgement failed.
const maxUnacked = 100_000

// Worker takes chunks off the queue, gathers them per table and inserts them.
// A chunk is in hand from its delivery until it is acknowledged or handed
// back; its rows are then written or parked, or still in the queue.
type Worker struct {
	o       WorkerOptions
	held    *fairshare.Bytes
	shapes  *shapes
	zstd    *zstd.Decoder
	pools   *poolBackoffs
	metrics *workerMetrics

	stopping chan struct{} // closed when Run's context has ended
	started  chan struct{} // closed when consumption is set
	flushes  sync.WaitGroup
	// work is the context of INSERTs and parking; it outlives Run's context by
	// the drain. It and consumption are set before anything reads them.
	work        context.Context
	consumption mq.Consumption

	mu       sync.Mutex
	batchers map[mq.Topic]*batcher
	inHand   map[chunkKey]*chunk
	unacked  map[chunkKey]struct{}
	progress *progress
	draining bool
	totals   totals
}

type totals struct{ inserted, parked uint64 }

// NewWorker builds a Worker; Run does the work.
func NewWorker(o WorkerOptions) *Worker {
	o = o.withDefaults()
	w := &Worker{
		o:        o,
		held:     fairshare.New(o.MaxHeldPerTenant, o.MaxHeld),
		shapes:   newShapes(),
		zstd:     newDecompressor(),
		pools:    newPoolBackoffs(o.BackoffMin, o.BackoffMax),
		stopping: make(chan struct{}),
		started:  make(chan struct{}),
		batchers: make(map[mq.Topic]*batcher),
		inHand:   make(map[chunkKey]*chunk),
		unacked:  make(map[chunkKey]struct{}),
		progress: newProgress(),
	}
	w.metrics = newWorkerMetrics(o.Metrics, w)
	return w
}

// Run works until ctx ends, then writes what is in hand once, within
// DrainTimeout. What is left stays in the queue. It returns an error when the
// queue's delivery ends on its own. A Worker runs once.
func (w *Worker) Run(ctx context.Context) error {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	w.work = work
	// Twice what is held here, so that the bounds that decide are the
	// worker's, which knows which table is stuck.
	consumption, err := w.o.Broker.Consume(work, mq.ConsumeOptions{
		MaxBytesPerTenant: 2 * w.o.MaxHeldPerTenant, MaxBytes: 2 * w.o.MaxHeld,
	}, w.handle)
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
	w.zstd.Close()
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

// drain stops delivery and gives what is in hand one attempt, within the time
// there is; giveUp ends the attempts that are then still running.
func (w *Worker) drain(giveUp context.CancelFunc) error {
	timer := time.AfterFunc(w.o.DrainTimeout, giveUp)
	defer timer.Stop()
	close(w.stopping)
	err := w.consumption.Stop(w.work)
	w.flushAll()
	w.flushes.Wait()
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

// handle takes one delivery. It blocks while its tenant's share of memory is
// used up, which delays that tenant alone.
func (w *Worker) handle(d mq.Delivery) {
	<-w.started
	if w.redelivered(d) {
		return
	}
	c, err := w.readChunk(d)
	if err != nil {
		w.parkUnreadable(d, err)
		return
	}
	b := w.take(c)
	if delay, ok := w.admit(b, c); !ok {
		w.handBack(b, delay, c)
		return
	}
	w.add(b, c)
}
