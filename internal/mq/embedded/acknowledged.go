package embedded

import (
	"context"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Acknowledged returns the position up to which every chunk of the tenant is
// acknowledged, and the newest chunk that was stored before this process
// opened the queue: what is unacknowledged up to there may have been delivered
// by the one before. Both are zero for a queue that is not open.
func (b *Broker) Acknowledged(ctx context.Context, t tenant.ID) (floor, inherited mq.Position, err error) {
	if err := b.enter(); err != nil {
		return floor, inherited, err
	}
	defer b.leave()
	q, ok := b.known(t)
	if !ok {
		return floor, inherited, ctx.Err()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.epoch == 0 {
		return floor, inherited, ctx.Err()
	}
	return mq.NewPosition(q.epoch, q.acked.Floor), mq.NewPosition(q.epoch, q.inherited), ctx.Err()
}
