package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Outcome says where an answer came from.
type Outcome uint8

// The outcomes.
const (
	Miss   Outcome = iota // a query of one's own
	Shared                // a query that another caller had begun
	Hit                   // the cache
)

var outcomeNames = [...]string{"miss", "shared", "hit"}

// String is the outcome as a metric label.
func (o Outcome) String() string { return outcomeNames[o] }

// Dependencies are the tables that an answer depends on.
type Dependencies struct {
	// Tables are named as Invalidate names them.
	Tables []string
	// Complete: there are no others. An incomplete answer lives by its time
	// alone.
	Complete bool
}

// Query is a question and how it is answered.
type Query struct {
	Key Key
	// Dependencies is asked on a miss.
	Dependencies func(ctx context.Context) Dependencies
	// Run asks ClickHouse. Its context ends when nobody waits any more.
	Run func(ctx context.Context) (body []byte, contentType string, err error)
	// TTL bounds how long the answer is kept; zero is no bound of the asker's.
	TTL time.Duration
}

// ReadsOptions are what Reads are made with.
type ReadsOptions struct {
	Cache   Cache
	Logger  *slog.Logger          // nil discards
	Metrics prometheus.Registerer // nil counts nowhere
	Now     func() time.Time      // nil is time.Now
}

// Reads answer from the cache, and run one query for equal questions that miss
// at once. A query goes on while anyone waits for it.
type Reads struct {
	cache    Cache
	logger   *slog.Logger
	now      func() time.Time
	metrics  *metrics
	encoders Encoders

	mu      sync.Mutex
	flights map[Key]*flight
	running sync.WaitGroup
}

// NewReads makes Reads over a cache.
func NewReads(o ReadsOptions) *Reads {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Reads{
		cache: o.Cache, logger: o.Logger, now: o.Now,
		metrics: newMetrics(o.Metrics), flights: map[Key]*flight{},
	}
}

// flight is one query that runs, on the goroutine of who began it, and who
// waits for it.
type flight struct {
	token  Token
	run    context.Context // of the query: it ends when nobody waits
	cancel context.CancelFunc
	// waiters is guarded by Reads.mu.
	waiters int

	// Written before done is closed.
	done    chan struct{}
	value   *Value
	outcome Outcome
	err     error
	fault   any // what the query panicked with
}

// Get answers the query. The error is Run's, or the context's when it ended
// first; who runs the query for others stays until they are answered. It
// panics with what Run panicked with.
func (r *Reads) Get(ctx context.Context, q Query) (*Value, Outcome, error) {
	value, token := r.cache.Lookup(ctx, q.Key)
	if value != nil {
		r.metrics.count(Hit)
		return value, Hit, nil
	}
	deps := q.Dependencies(ctx)
	f, joined := r.board(ctx, q.Key, token, deps)
	if joined {
		select {
		case <-f.done:
		case <-ctx.Done():
			r.leave(q.Key, f)
			return nil, Miss, context.Cause(ctx)
		}
	} else {
		r.pilot(ctx, q, f, deps)
	}
	if f.fault != nil {
		panic(f.fault)
	}
	if !joined && ctx.Err() != nil {
		return nil, Miss, context.Cause(ctx)
	}
	outcome := f.outcome
	if joined && outcome == Miss {
		outcome = Shared
	}
	r.metrics.count(outcome)
	return f.value, outcome, f.err
}

// Peek answers from the cache alone; nil is a miss, which is not counted.
func (r *Reads) Peek(ctx context.Context, key Key) *Value {
	value, _ := r.cache.Lookup(ctx, key)
	if value != nil {
		r.metrics.count(Hit)
	}
	return value
}

// board joins the query that runs for the same question, unless something was
// written since it began. Else it makes a flight, which the caller is to run.
func (r *Reads) board(ctx context.Context, key Key, token Token, deps Dependencies) (f *flight, joined bool) {
	r.mu.Lock()
	f = r.flights[key]
	if f != nil {
		f.waiters++ // keeps it alive while it is looked at
		r.mu.Unlock()
		if r.cache.Current(ctx, f.token, deps.Tables) {
			return f, true
		}
		r.leave(key, f)
		r.mu.Lock()
	}
	defer r.mu.Unlock()
	f = &flight{token: token, waiters: 1, done: make(chan struct{})}
	f.run, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
	r.flights[key] = f
	r.running.Add(1)
	return f, false
}

// pilot runs the query of a flight on the caller's goroutine. When the caller
// leaves, it is one waiter less.
func (r *Reads) pilot(ctx context.Context, q Query, f *flight, deps Dependencies) {
	defer r.running.Done()
	stop := context.AfterFunc(ctx, func() { r.leave(q.Key, f) })
	defer stop()
	r.fly(f.run, q, f, deps)
}

// leave is a waiter that goes. The last one ends the query, which nobody joins
// from then on.
func (r *Reads) leave(key Key, f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f.waiters--; f.waiters > 0 {
		return
	}
	f.cancel()
	r.remove(key, f)
}

func (r *Reads) remove(key Key, f *flight) {
	if r.flights[key] == f {
		delete(r.flights, key)
	}
}

// fly runs the query of a flight.
func (r *Reads) fly(ctx context.Context, q Query, f *flight, deps Dependencies) {
	defer func() {
		f.fault = recover()
		r.mu.Lock()
		r.remove(q.Key, f)
		r.mu.Unlock()
		close(f.done)
		f.cancel()
	}()
	// Whoever was before may have finished between our look and our start.
	value, token := r.cache.Lookup(ctx, q.Key)
	if value != nil {
		f.value, f.outcome = value, Hit
		return
	}
	started := r.now()
	body, contentType, err := q.Run(ctx)
	if err != nil {
		f.err = err
		return
	}
	f.value = NewValue(body, contentType, deps.Tables)
	r.keep(ctx, token, f.value, TTL(r.now().Sub(started), q.TTL, deps.Complete))
}

// keep files the value. It happens before the flight ends, so that who comes
// later finds one or the other.
func (r *Reads) keep(ctx context.Context, token Token, value *Value, ttl time.Duration) {
	kept, err := r.encoders.Compress(value)
	if err != nil {
		r.logger.ErrorContext(ctx, "a result is not kept", "error", err)
		return
	}
	r.cache.Fill(ctx, token, kept, ttl)
}

// errStillRunning: Close's context ended first.
var errStillRunning = errors.New("queries still run")

// Close waits until no query runs, or ctx ends. Queries end when nobody waits
// for them, so end the requests first.
func (r *Reads) Close(ctx context.Context) error {
	ended := make(chan struct{})
	go func() {
		r.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errStillRunning, context.Cause(ctx))
	}
}
