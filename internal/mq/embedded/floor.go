package embedded

import (
	"context"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// Floor implements mq.Floors.
func (b *Broker) Floor(ctx context.Context, t mq.Topic) (floor, inherited mq.Position, err error) {
	err = b.look(ctx, t, func(q *queue) {
		floor, inherited = mq.NewPosition(q.epoch, q.acked.Floor), mq.NewPosition(q.epoch, q.inherited)
	})
	return floor, inherited, err
}

// look calls do with the topic's queue, its mu held, if it was ever opened.
func (b *Broker) look(ctx context.Context, t mq.Topic, do func(*queue)) error {
	if err := b.life.Enter(); err != nil {
		return err
	}
	defer b.life.Leave()
	if q, ok := b.known(t.Tenant); ok {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.epoch != 0 {
			do(q)
		}
	}
	return ctx.Err()
}
