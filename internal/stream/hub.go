package stream

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wavehouse/wavehouse/internal/chunk"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

const (
	defaultQueueBytes   = 1 << 20
	defaultReplays      = 64
	defaultBatchBytes   = 768 << 10
	defaultWriteTimeout = 30 * time.Second
	defaultMaxLag       = 30 * time.Second
	defaultKeepalive    = 30 * time.Second
	defaultBuckets      = 3
	defaultLifetime     = time.Hour
	readyTimeout        = 5 * time.Second
)

// Hub fans the broker's feed out to subscribers. Build one with New.
//
// Locks: mu, then a topic's subsMu. A topic's mu, its groupsMu, a subscriber's
// mu and the locks of the wheel and the wake queue are leaves.
type Hub struct {
	o       Options
	log     *slog.Logger
	metrics *metrics
	chunks  *chunk.Opener
	wheel   *wheel
	wakes   *wakeQueue
	// slots holds one token per running history read.
	slots chan struct{}
	// ready is closed once the feed runs: a subscriber that came before it
	// could miss rows.
	ready chan struct{}

	mu          sync.RWMutex
	topics      map[mq.Topic]*topic
	subscribers map[tenant.ID]int
	closed      bool
}

// New builds a hub; Run starts it.
func New(o Options) *Hub {
	o = withDefaults(o)
	return &Hub{
		o:           o,
		log:         o.Logger,
		metrics:     newMetrics(o.Registerer),
		chunks:      chunk.NewOpener(),
		wheel:       newWheel(o.Now),
		wakes:       newWakeQueue(),
		slots:       make(chan struct{}, o.MaxReplays),
		ready:       make(chan struct{}),
		topics:      make(map[mq.Topic]*topic),
		subscribers: make(map[tenant.ID]int),
	}
}

func withDefaults(o Options) Options {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Hidden == nil {
		o.Hidden = func(tenant.ID, string) ([]string, bool) { return nil, true }
	}
	if o.IDs == nil {
		o.IDs, _ = NewIDs(nil) // one that was made up always fits
	}
	o.QueueBytes = orDefault(o.QueueBytes, defaultQueueBytes)
	o.MaxReplays = orDefault(o.MaxReplays, defaultReplays)
	o.ReplayBatchBytes = orDefault(o.ReplayBatchBytes, defaultBatchBytes)
	o.WriteTimeout = orDefault(o.WriteTimeout, defaultWriteTimeout)
	o.MaxLag = orDefault(o.MaxLag, defaultMaxLag)
	o.MaxLifetime = orDefault(o.MaxLifetime, defaultLifetime)
	return o
}

func orDefault[T int | int64 | time.Duration](v, fallback T) T {
	if v > 0 {
		return v
	}
	return fallback
}

// Run follows the feed until ctx ends; then every stream ends with
// EndShutdown. It fails only when the feed cannot be opened. A hub runs once.
func (h *Hub) Run(ctx context.Context) error {
	feed, err := h.o.Broker.Feed(ctx, mq.Viewer{Chunk: h.take, Hole: h.miss})
	if err != nil {
		return fmt.Errorf("stream: open the live feed: %w", err)
	}
	defer feed.Close()
	var wheel sync.WaitGroup
	wheel.Go(func() { h.wheel.run(ctx) })
	defer wheel.Wait()
	close(h.ready)
	h.wakeReaders(ctx)
	h.CloseAll(EndShutdown)
	return nil
}

// EventID is the event id with which a stream of t starts behind the chunk at p.
func (h *Hub) EventID(t mq.Topic, p mq.Position) string { return h.o.IDs.After(t, p) }

// take is the feed's handler. It runs in the path of a publish, so all it does
// is append to a table's backlog, if anyone follows the table.
func (h *Hub) take(c mq.Chunk, p mq.Position) {
	h.mu.RLock()
	t := h.topics[c.Topic]
	h.mu.RUnlock()
	if t == nil {
		return
	}
	t.push(c, p)
	h.wakes.add(t)
}

// miss is told what the feed does not show. Who follows a table of that queue
// comes to it in its place among the chunks.
func (h *Hub) miss(hole mq.Hole) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, t := range h.topics {
		t.append(&item{hole: &hole, next: &link{}}, 0)
		h.wakes.add(t)
	}
}

// wakeReaders wakes the readers of what the feed brought.
func (h *Hub) wakeReaders(ctx context.Context) {
	var batch []*topic
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.wakes.ready:
		}
		batch = h.wakes.takeAll(batch)
		for _, t := range batch {
			if n := t.wake(h.o.QueueBytes, h.o.Now()); n > 0 {
				t.counts.overflows.Add(float64(n))
			}
		}
		clear(batch)
	}
}

// EndTenant ends the tenant's streams with the reason. Those that are opening
// are told too, or find in their grant that the tenant is gone: call it after
// the snapshots were swapped.
func (h *Hub) EndTenant(id tenant.ID, reason string) {
	for _, s := range h.matching(func(t *topic) bool { return t.Tenant == id }) {
		s.end(reason)
	}
}

// Reseat asks every stream for its keepalives' rhythm again, after a change of
// settings.
func (h *Hub) Reseat() {
	for _, s := range h.matching(func(*topic) bool { return true }) {
		s.reseat()
	}
}

// Tenants lists those with open streams, in no order.
func (h *Hub) Tenants() []tenant.ID {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return slices.Collect(maps.Keys(h.subscribers))
}

// CloseAll ends every stream with the reason and refuses new ones. It does not
// wait for them: their handlers return.
func (h *Hub) CloseAll(reason string) {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	for _, s := range h.matching(func(*topic) bool { return true }) {
		s.end(reason)
	}
}

func (h *Hub) matching(want func(*topic) bool) []*subscriber {
	h.mu.RLock()
	defer h.mu.RUnlock()
	var found []*subscriber
	for _, t := range h.topics {
		if want(t) {
			t.each(func(s *subscriber) { found = append(found, s) })
		}
	}
	return found
}

// Open counts the tenant's streams.
func (h *Hub) Open(id tenant.ID) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.subscribers[id]
}

// register enters s into the hub and attaches it to its table's backlog.
func (h *Hub) register(s *subscriber) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return unavailable("the server is stopping", nil)
	}
	limit, n := s.sub.MaxSubscribers, h.subscribers[s.sub.Tenant]
	if limit > 0 && n >= limit {
		return &Error{
			Code: CodeTooManySubscribers, RetryAfter: 10 * time.Second, Limit: limit,
			Message: fmt.Sprintf("the tenant has %d open streams, its limit", n),
		}
	}
	h.subscribers[s.sub.Tenant] = n + 1
	s.topic = h.topicLocked(mq.Topic{Tenant: s.sub.Tenant, Table: s.sub.Table})
	s.topic.refs++
	s.topic.counts.subscribers.Inc()
	s.topic.attach(s)
	s.topic.add(s)
	return nil
}

func (h *Hub) topicLocked(key mq.Topic) *topic {
	t, ok := h.topics[key]
	if !ok {
		t = newTopic(key, h.metrics.forTenant(key.Tenant.String()))
		t.projector = projector{
			topic:    key,
			ids:      h.o.IDs.of(key),
			hidden:   func() ([]string, bool) { return h.o.Hidden(key.Tenant, key.Table) },
			withhold: func(reason string, rows int, cause error) { h.withhold(key, reason, rows, cause) },
		}
		h.topics[key] = t
	}
	return t
}

func (h *Hub) unregister(s *subscriber) {
	s.topic.remove(s)
	s.topic.leave(s.group)
	s.topic.counts.subscribers.Dec()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subscribers[s.sub.Tenant]--; h.subscribers[s.sub.Tenant] == 0 {
		delete(h.subscribers, s.sub.Tenant)
	}
	if s.topic.refs--; s.topic.refs == 0 {
		delete(h.topics, s.topic.Topic)
	}
}

// withhold counts rows that a reader may not or cannot see.
func (h *Hub) withhold(t mq.Topic, reason string, rows int, cause error) {
	if rows <= 0 {
		return // a position may name a row that its chunk does not have
	}
	h.metrics.withheld.With(prometheus.Labels{
		"tenant": t.Tenant.String(), "table": t.Table, "reason": reason,
	}).Add(float64(rows))
	if cause != nil {
		h.log.Warn("rows withheld from streams", "tenant", t.Tenant, "table", t.Table,
			"reason", reason, "rows", rows, "error", cause)
	}
}
