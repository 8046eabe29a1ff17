package cache

import (
	"cmp"
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
	// Confirm says once the answer is there whether it depends on what was said
	// before. It is asked of an answer that would be kept for longer than an
	// incomplete one; nil is a yes.
	Confirm func(ctx context.Context) bool
}

// certain asks whether the dependencies hold that were named before the answer
// was made.
func (d Dependencies) certain(ctx context.Context) bool { return d.Confirm == nil || d.Confirm(ctx) }

// worthALook is how long an answer took for which it is worth while to ask whether
// its dependencies hold: that costs ClickHouse as much as a small query.
const worthALook = 100 * time.Millisecond

// ttl is how long an answer is kept that took so long to make.
func (d Dependencies) ttl(ctx context.Context, took, own time.Duration) time.Duration {
	unbound := TTL(took, own, false)
	if bound := TTL(took, own, d.Complete); bound > unbound && took >= worthALook && d.certain(ctx) {
		return bound
	}
	return unbound
}

// Query is a question and how it is answered.
type Query struct {
	Key Key
	// Dependencies is asked on a miss.
	Dependencies func(ctx context.Context) Dependencies
	// Run asks ClickHouse. Its context ends when nobody waits any more. An answer
	// that is too large to be held is ErrLarge, and then whoever ran it has it, on
	// a context that ends with its own.
	Run func(ctx context.Context) (Answer, error)
	// TTL bounds how long the answer is kept; zero is no bound of the asker's.
	TTL time.Duration
}

// Answer is what a query is answered with. The body must not be changed afterwards.
type Answer struct {
	Body        []byte
	ContentType string
	// Notes are what is to be told to everyone who is given the answer.
	Notes []Note
}

// ErrLarge says that the answer is too large to be held. Who shared the question with the
// one that asked it is to ask it too.
var ErrLarge = errors.New("the answer is too large to be shared")

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
	calls   map[Key]*call
	running sync.WaitGroup
}

// NewReads makes Reads over a cache.
func NewReads(o ReadsOptions) *Reads {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Reads{
		cache: o.Cache, logger: o.Logger, now: o.Now,
		metrics: newMetrics(o.Metrics), calls: map[Key]*call{},
	}
}

// call is one query that runs, on the goroutine of who began it, and who waits
// for it.
type call struct {
	ticket Ticket
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

// Get answers the query. The error is Run's, also for those who shared it, or the context's when it ended
// first; who runs the query for others stays until they are answered. It
// panics with what Run panicked with.
func (r *Reads) Get(ctx context.Context, q Query) (*Value, Outcome, error) {
	value, ticket := r.cache.Lookup(ctx, q.Key)
	if value != nil {
		r.metrics.count(Hit)
		return value, Hit, nil
	}
	deps := q.Dependencies(ctx)
	c, joined := r.join(ctx, q.Key, ticket, deps)
	if joined {
		select {
		case <-c.done:
		case <-ctx.Done():
			r.leave(q.Key, c)
			return nil, Miss, context.Cause(ctx)
		}
	} else {
		r.lead(ctx, q, c, deps)
	}
	if c.fault != nil {
		panic(c.fault)
	}
	if !joined && ctx.Err() != nil {
		return nil, Miss, context.Cause(ctx)
	}
	outcome := c.outcome
	if joined && outcome == Miss {
		outcome = Shared
	}
	r.metrics.count(outcome)
	return c.value, outcome, c.err
}

// Peek answers from the cache alone; nil is a miss, which is not counted.
func (r *Reads) Peek(ctx context.Context, key Key) *Value {
	value, _ := r.cache.Lookup(ctx, key)
	if value != nil {
		r.metrics.count(Hit)
	}
	return value
}

// join joins the query that runs for the same question, unless something was
// written since it began. Else it makes a call, which the caller is to run.
func (r *Reads) join(ctx context.Context, key Key, ticket Ticket, deps Dependencies) (c *call, joined bool) {
	r.mu.Lock()
	c = r.calls[key]
	if c != nil {
		c.waiters++ // keeps it alive while it is looked at
		r.mu.Unlock()
		if r.cache.Current(ctx, c.ticket, deps.Tables) {
			return c, true
		}
		r.leave(key, c)
		r.mu.Lock()
	}
	defer r.mu.Unlock()
	c = &call{ticket: ticket, waiters: 1, done: make(chan struct{})}
	c.run, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	r.calls[key] = c
	r.running.Add(1)
	return c, false
}

// lead runs the query of a call on the caller's goroutine. When the caller
// leaves, it is one waiter less.
func (r *Reads) lead(ctx context.Context, q Query, c *call, deps Dependencies) {
	defer r.running.Done()
	stop := context.AfterFunc(ctx, func() { r.leave(q.Key, c) })
	r.run(c.run, q, c, deps)
	stop()
	if errors.Is(c.err, ErrLarge) {
		context.AfterFunc(ctx, c.cancel)
	}
}

// leave is a waiter that goes. The last one ends the query, which nobody joins
// from then on.
func (r *Reads) leave(key Key, c *call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.waiters--; c.waiters > 0 {
		return
	}
	c.cancel()
	r.remove(key, c)
}

func (r *Reads) remove(key Key, c *call) {
	if r.calls[key] == c {
		delete(r.calls, key)
	}
}

// run runs the query of a call.
func (r *Reads) run(ctx context.Context, q Query, c *call, deps Dependencies) {
	defer func() {
		c.fault = recover()
		r.mu.Lock()
		r.remove(q.Key, c)
		r.mu.Unlock()
		close(c.done)
		if !errors.Is(c.err, ErrLarge) {
			c.cancel()
		}
	}()
	// Whoever was before may have finished between our look and our start.
	value, ticket, done := r.enter(ctx, q.Key)
	defer done()
	if value != nil {
		c.value, c.outcome = value, Hit
		return
	}
	started := r.now()
	answer, err := q.Run(ctx)
	if err != nil {
		c.err = err
		return
	}
	c.value = NewValue(answer.Body, answer.ContentType, deps.Tables)
	c.value.Notes = answer.Notes
	r.keep(ctx, ticket, c.value, deps.ttl(ctx, r.now().Sub(started), q.TTL))
}

// enter looks whether the question is still to be asked, of other processes too.
func (r *Reads) enter(ctx context.Context, key Key) (value *Value, ticket Ticket, done func()) {
	if leader, ok := r.cache.(Leader); ok {
		return leader.Lead(ctx, key)
	}
	value, ticket = r.cache.Lookup(ctx, key)
	return value, ticket, func() {}
}

// keep files the value. It happens before the call ends, so that who comes
// later finds one or the other.
func (r *Reads) keep(ctx context.Context, ticket Ticket, value *Value, ttl time.Duration) {
	kept, err := r.encoders.Compress(value)
	if err != nil {
		r.logger.ErrorContext(ctx, "a result is not kept", "error", err)
		return
	}
	r.cache.Fill(ctx, ticket, kept, ttl)
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
