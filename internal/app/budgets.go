package app

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

const (
	// budgetsAtOnce bounds the budgets that are set at a time, and
	// budgetTimeout how long a queue that does not answer holds a reload up.
	budgetsAtOnce = 8
	budgetTimeout = 5 * time.Second
)

// budgets remembers what each tenant's queue was told, so that a reload speaks
// to the queues of those alone whose budget is another. It is used by one
// adoption after the other.
type budgets struct {
	queue mq.Budgets // nil for one that has none
	told  map[tenant.ID]int64
}

func newBudgets(broker mq.Broker) *budgets {
	queue, _ := broker.(mq.Budgets)
	return &budgets{queue: queue, told: map[tenant.ID]int64{}}
}

// adopt sets the budgets that changed, that failed before, and those of queues
// that are to be tried again. A tenant that left keeps its last one.
func (b *budgets) adopt(ctx context.Context, snapshots map[tenant.ID]*settings.Snapshot, failures *failures) {
	if b.queue == nil {
		return
	}
	maps.DeleteFunc(b.told, func(id tenant.ID, _ int64) bool { return snapshots[id] == nil })
	for _, id := range b.queue.Unopened() {
		delete(b.told, id)
	}
	var (
		all   sync.WaitGroup
		mu    sync.Mutex
		slots = make(chan struct{}, budgetsAtOnce)
	)
	for id, snapshot := range snapshots {
		bytes := snapshot.Config.MQ.MaxBytes
		mu.Lock()
		told := b.told[id]
		mu.Unlock()
		if told == bytes {
			continue
		}
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			ctx, cancel := context.WithTimeout(ctx, budgetTimeout)
			defer cancel()
			if err := b.queue.SetBudget(ctx, id, bytes); err != nil {
				failures.add(id, stepBudget, "cannot set the tenant's queue budget", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			b.told[id] = bytes
		})
	}
	all.Wait()
}
