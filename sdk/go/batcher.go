package wavehouse

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"
)

// BatcherOptions bound a Batcher. Zero values are the defaults.
type BatcherOptions[R any] struct {
	// MaxRows and MaxBytes close a batch: 500 rows, 1 MiB.
	MaxRows, MaxBytes int
	// MaxAge is how long a row waits for others: 1 s.
	MaxAge time.Duration
	// MaxQueueBytes is what may wait while the server cannot be reached: 16 MiB.
	MaxQueueBytes int
	// OnDrop is told of rows that will not be sent, on the batcher's goroutine.
	OnDrop func(rows []R, err error)
}

// Errors of a Batcher.
var (
	// ErrClosed says that the batcher takes no more rows.
	ErrClosed = errors.New("wavehouse: the batcher is closed")
	// ErrQueueFull says that so much waits already that there is no room.
	ErrQueueFull = errors.New("wavehouse: the batcher's queue is full")
)

// Batcher collects rows of one table and sends them in batches, one after another,
// each under an idempotency key of its own: one whose answer was lost is repeated
// until it is answered, and stored once. Close it.
type Batcher[R any] struct {
	client  *Client
	table   string
	options BatcherOptions[R]
	ctx     context.Context // of the sender; cancelled by Close
	cancel  context.CancelFunc
	done    chan struct{}
	wake    chan struct{} // capacity 1

	mu      sync.Mutex
	open    parcel[R]
	waiting []*parcel[R]
	bytes   int
	closed  bool
	failure error         // of the last attempt; nil after one that was answered
	idle    chan struct{} // closed when nothing waits
}

type parcel[R any] struct {
	key   string
	rows  []R
	bytes int
	born  time.Time
}

// keyLife is how long a key is sure to be remembered by the server.
const keyLife = 23 * time.Hour

// NewBatcher starts a batcher for a table.
func NewBatcher[R any](c *Client, table string, options BatcherOptions[R]) *Batcher[R] {
	set := func(value *int, fallback int) {
		if *value <= 0 {
			*value = fallback
		}
	}
	set(&options.MaxRows, 500)
	set(&options.MaxBytes, 1<<20)
	set(&options.MaxQueueBytes, 16<<20)
	options.MaxRows = min(options.MaxRows, maxRows)
	if options.MaxAge <= 0 {
		options.MaxAge = time.Second
	}
	b := &Batcher[R]{client: c, table: table, options: options, done: make(chan struct{}), wake: make(chan struct{}, 1), idle: make(chan struct{})}
	close(b.idle)
	b.ctx, b.cancel = context.WithCancel(context.Background())
	go b.run()
	return b
}

// Add takes a row. The error is ErrClosed, ErrQueueFull, or that the row has no
// JSON form.
func (b *Batcher[R]) Add(row R) error {
	text, err := marshal(row)
	if err != nil {
		return &Error{Code: CodeInvalidRow, Message: "the row has no JSON form: " + err.Error(), cause: err}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return ErrClosed
	case b.bytes+len(text) > b.options.MaxQueueBytes:
		return ErrQueueFull
	}
	if len(b.open.rows) > 0 && b.open.bytes+len(text) > b.options.MaxBytes {
		b.seal()
	}
	if len(b.open.rows) == 0 {
		b.open.born = time.Now()
	}
	if b.bytes == 0 {
		b.idle = make(chan struct{})
	}
	b.open.rows = append(b.open.rows, row)
	b.open.bytes += len(text)
	b.bytes += len(text)
	if len(b.open.rows) >= b.options.MaxRows {
		b.seal()
	}
	b.nudge()
	return nil
}

// Flush sends what waits, and returns when nothing does or ctx ends: then the error
// says how many rows wait, and wraps why ctx ended and why the last attempt failed.
func (b *Batcher[R]) Flush(ctx context.Context) error {
	b.mu.Lock()
	b.seal()
	idle := b.idle
	b.mu.Unlock()
	b.nudge()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.unsent(context.Cause(ctx))
	}
}

// Close takes no more rows, sends what waits until ctx ends, and returns the rows
// that were not sent: whether those of a request under way were stored is not known.
// The error is nil when there are none; else it wraps why ctx ended and, as an *Error,
// why the last attempt failed.
func (b *Batcher[R]) Close(ctx context.Context) (unsent []R, err error) {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	err = b.Flush(ctx)
	b.cancel()
	<-b.done
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.waiting {
		unsent = append(unsent, p.rows...)
	}
	if err == nil || len(unsent) == 0 {
		return nil, nil
	}
	// What the request under way came to is known only now.
	return unsent, b.unsent(context.Cause(ctx))
}

// unsent is the error of a wait that ended before the rows were sent. mu is held.
func (b *Batcher[R]) unsent(why error) error {
	rows := len(b.open.rows)
	for _, p := range b.waiting {
		rows += len(p.rows)
	}
	if b.failure == nil {
		return fmt.Errorf("wavehouse: %d rows of table %q were not sent: %w", rows, b.table, why)
	}
	return fmt.Errorf("wavehouse: %d rows of table %q were not sent: %w; the last attempt: %w", rows, b.table, why, b.failure)
}

// failed keeps why an attempt failed: of a call that was given up while it waited to
// be repeated, what it had met before.
func (b *Batcher[R]) failed(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var call, before *Error
	switch {
	case errors.As(err, &call) && call.Code == CodeAborted && errors.As(call.cause, &before):
		b.failure = before
	case b.failure == nil || b.ctx.Err() == nil:
		b.failure = err
	}
}

// seal closes the open batch. mu is held.
func (b *Batcher[R]) seal() {
	if len(b.open.rows) > 0 {
		p := b.open
		p.key = rand.Text()
		b.waiting = append(b.waiting, &p)
		b.open = parcel[R]{}
	}
}

func (b *Batcher[R]) nudge() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// run sends batches in order.
func (b *Batcher[R]) run() {
	defer close(b.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for failures := 0; ; {
		p, wait := b.next()
		if p == nil {
			timer.Reset(wait)
			select {
			case <-b.ctx.Done():
				return
			case <-b.wake:
			case <-timer.C:
			}
			continue
		}
		result, err := Insert(b.ctx, b.client, b.table, p.rows, IdempotencyKey(p.key))
		if b.ctx.Err() != nil && err != nil {
			b.failed(err)
			return
		}
		if failure, again := b.again(p, err); again {
			b.failed(err)
			wait := max(failure.RetryAfter, backoff(min(failures+1, 7), 0))
			failures++
			b.client.logger.Debug("a batch waits", "table", b.table, "rows", len(p.rows), "wait", wait, "error", err)
			if b.client.sleep(b.ctx, wait) != nil {
				return
			}
			continue
		}
		failures = 0
		b.settle(p, result, err)
	}
}

// next is the batch to send, or how long to wait for one.
func (b *Batcher[R]) next() (*parcel[R], time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.open.rows) > 0 && time.Since(b.open.born) >= b.options.MaxAge {
		b.seal()
	}
	if len(b.waiting) > 0 {
		return b.waiting[0], 0
	}
	if len(b.open.rows) > 0 {
		return nil, time.Until(b.open.born.Add(b.options.MaxAge))
	}
	return nil, time.Hour
}

// again reports whether the batch may be taken later.
func (b *Batcher[R]) again(p *parcel[R], err error) (*Error, bool) {
	var refused *InsertError
	if err == nil || !errors.As(err, &refused) || refused.Result.Total == len(p.rows) {
		return nil, false
	}
	e := refused.Err
	passes := e.Retryable || e.Status == 0 || e.Status == 401 || e.Status == 408 || e.Status == 409 || e.Status == 429 || e.Status >= 500
	return e, passes && time.Since(p.born) < keyLife
}

// settle lets go of a batch that was answered for, and tells of rows that were not
// taken.
func (b *Batcher[R]) settle(p *parcel[R], result InsertResult, err error) {
	b.mu.Lock()
	b.waiting, b.failure = b.waiting[1:], nil
	if b.bytes -= p.bytes; b.bytes == 0 {
		close(b.idle)
	}
	b.mu.Unlock()
	switch {
	case b.options.OnDrop == nil:
	case err != nil:
		b.options.OnDrop(p.rows, err)
	default:
		for _, f := range result.Failures {
			b.options.OnDrop(p.rows[f.Index:f.Index+1], &Error{Code: f.Code, Message: f.Message})
		}
	}
}
