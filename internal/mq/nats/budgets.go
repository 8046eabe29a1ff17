package nats

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

var _ mq.Budgets = (*Broker)(nil)

// budgets keeps tenants within their part of partitions that all of them share.
// Each process counts for itself what waits, as the partitions know it per table,
// and adds what it sent since. A tenant whose chunks were never seen here is taken
// to send such as the partition's average.
type budgets struct {
	b *Broker
	// sent is set by every publish: with nothing sent and nothing waiting nobody
	// is asked.
	sent atomic.Bool

	mu      sync.Mutex
	tenants map[tenant.ID]*budget
}

// budget is one tenant's.
type budget struct {
	// limit in bytes, 0 for none.
	limit int64
	// waiting is what the last look counted; fresh was sent since it began, and
	// before counts towards the next one.
	waiting, fresh, before int64
	// size is the average of the chunks sent from here, 0 when there was none.
	size float64
}

// bytes that are taken to wait.
func (t *budget) bytes() int64 { return t.waiting + t.fresh + t.before }

func newBudgets(b *Broker) *budgets { return &budgets{b: b, tenants: map[tenant.ID]*budget{}} }

// SetBudget implements mq.Budgets. Dead letters have no part of it: their stream
// is shared.
func (b *Broker) SetBudget(_ context.Context, t tenant.ID, bytes int64) error {
	if err := b.life.Enter(); err != nil {
		return err
	}
	defer b.life.Leave()
	if bytes <= 0 {
		return fmt.Errorf("budget of tenant %s: %d bytes", t, bytes)
	}
	b.budgets.mu.Lock()
	defer b.budgets.mu.Unlock()
	b.budgets.ofLocked(t).limit = bytes
	return nil
}

// Unopened implements mq.Budgets: no tenant has a queue of its own.
func (b *Broker) Unopened() []tenant.ID { return nil }

func (bs *budgets) ofLocked(t tenant.ID) *budget {
	of := bs.tenants[t]
	if of == nil {
		of = &budget{}
		bs.tenants[t] = of
	}
	return of
}

// take counts a chunk that is about to be sent, or refuses it.
func (bs *budgets) take(t tenant.ID, size int) error {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	of := bs.ofLocked(t)
	if of.limit > 0 && of.bytes()+int64(size) > of.limit {
		return fmt.Errorf("%w: %d bytes of tenant %s wait to be written, and its budget is %d", mq.ErrFull, of.bytes(), t, of.limit)
	}
	of.fresh += int64(size)
	if of.size == 0 {
		of.size = float64(size)
	}
	of.size += (float64(size) - of.size) / 16
	bs.sent.Store(true)
	return nil
}

// giveBack takes out of the count what was certainly not stored. What was sent
// before a look began is counted by that look.
func (bs *budgets) giveBack(t tenant.ID, size int) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	of := bs.ofLocked(t)
	of.fresh = max(of.fresh-int64(size), 0)
}

// countEvery is how often what waits is counted.
const countEvery = time.Second

// run counts until ctx ends. A look that fails leaves what was known, and what is
// sent meanwhile adds to it.
func (bs *budgets) run(ctx context.Context) {
	waits := false
	for ctx.Err() == nil {
		if bs.sent.Swap(false) || waits {
			bs.begin()
			if counted, err := bs.count(ctx); err == nil {
				waits = bs.end(counted)
			} else if waits = true; ctx.Err() == nil {
				bs.b.log.Debug("what waits in the queue is not counted", "error", err)
			}
		}
		pause(ctx, countEvery)
	}
}

// begin sets apart what the next look may or may not see.
func (bs *budgets) begin() {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	for _, of := range bs.tenants {
		of.before, of.fresh = of.before+of.fresh, 0
	}
}

// waiting is what waits of one tenant in a partition, and the partition's average.
type waiting struct {
	chunks  uint64
	average float64
}

// count asks every partition what waits per table.
func (bs *budgets) count(ctx context.Context) (map[tenant.ID][]waiting, error) {
	all := map[tenant.ID][]waiting{}
	for _, p := range bs.b.parts {
		info, err := jetstream.Info(ctx, bs.b.js, p.stream, natsjs.WithSubjectFilter(">"))
		if err != nil {
			return nil, err
		}
		own := map[tenant.ID]uint64{}
		for subject, n := range info.State.Subjects {
			if t, ok := jetstream.ParseTopic(subject); ok {
				own[t.Tenant] += n
			}
		}
		for t, n := range own {
			all[t] = append(all[t], waiting{n, float64(info.State.Bytes) / float64(max(info.State.Msgs, 1))})
		}
	}
	return all, nil
}

// end takes over what was counted, and tells whether anything waits.
func (bs *budgets) end(counted map[tenant.ID][]waiting) bool {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	for t, of := range bs.tenants {
		of.waiting, of.before = 0, 0
		if counted[t] == nil && of.limit == 0 && of.fresh == 0 {
			delete(bs.tenants, t)
		}
	}
	for t, parts := range counted {
		of := bs.ofLocked(t)
		for _, w := range parts {
			size := w.average
			if of.size > 0 {
				size = of.size
			}
			of.waiting += int64(float64(w.chunks) * size)
		}
	}
	return len(counted) > 0
}
