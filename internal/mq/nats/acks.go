package nats

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
)

// answers sends answers to deliveries and waits until the server has taken them.
// It returns those that it did not hear of within the timeout.
func (b *Broker) answers(ds []*delivery, body []byte, timeout time.Duration) (open []*delivery, err error) {
	if len(ds) == 0 {
		return nil, nil
	}
	w := &answerWait{left: make(map[int]bool, len(ds)), done: make(chan struct{})}
	for n := range ds {
		w.left[n] = true
	}
	inbox := client.NewInbox() + "."
	sub, err := b.api.Subscribe(inbox+"*", func(m *client.Msg) { w.heard(strings.TrimPrefix(m.Subject, inbox), m) })
	if err != nil {
		return ds, fmt.Errorf("%w: %w", mq.ErrUnavailable, err)
	}
	defer func() { _ = sub.Unsubscribe() }()            // ends with the connection at the latest
	if err = sub.SetPendingLimits(-1, -1); err != nil { // one short answer each
		return ds, err
	}
	for n, d := range ds {
		if err = b.api.PublishMsg(&client.Msg{Subject: d.reply, Reply: inbox + strconv.Itoa(n), Data: body}); err != nil {
			err = fmt.Errorf("%w: %w", mq.ErrUnavailable, err)
			break
		}
	}
	late := time.NewTimer(timeout)
	defer late.Stop()
	if err == nil {
		select {
		case <-w.done:
			return nil, nil
		case <-late.C:
		case <-b.life.Context().Done():
		}
	}
	for n := range w.open() {
		open = append(open, ds[n])
	}
	if len(open) > 0 && err == nil {
		err = fmt.Errorf("%w: %d of %d answers in %s", mq.ErrUnavailable, len(ds)-len(open), len(ds), timeout)
	}
	return open, err
}

// answerWait collects what the server says.
type answerWait struct {
	mu   sync.Mutex
	left map[int]bool
	done chan struct{}
}

func (w *answerWait) heard(token string, m *client.Msg) {
	n, err := strconv.Atoi(token)
	if err != nil || m.Header.Get("Status") != "" {
		return // nobody leads the durable now
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.left[n] {
		return
	}
	delete(w.left, n)
	if len(w.left) == 0 {
		close(w.done)
	}
}

// open returns what is not answered; nothing more is noted of it.
func (w *answerWait) open() map[int]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	left := w.left
	w.left = nil
	return left
}

// ackTimeout bounds one try to acknowledge, of two.
const ackTimeout = jetstream.APITimeout / 2

// Ack implements mq.Consumption. A try that is lost with a leader is made again.
func (c *consumption) Ack(ds ...mq.Delivery) error {
	if err := c.b.life.Enter(); err != nil {
		return err
	}
	defer c.b.life.Leave()
	open, err := c.toAck(ds)
	if err != nil {
		return err
	}
	for s, all := range byShard(open) {
		s.notes.settle(all)
	}
	for range 2 {
		var left []*delivery
		left, err = c.b.answers(open, []byte(ackBody), ackTimeout)
		finished(open, left)
		if open = left; len(open) == 0 {
			return nil
		}
	}
	return fmt.Errorf("acknowledge %d deliveries: %w", len(open), err)
}

// toAck leaves out what is acknowledged, and refuses what is lost.
func (c *consumption) toAck(ds []mq.Delivery) ([]*delivery, error) {
	var open []*delivery
	for _, given := range ds {
		d, ok := given.(*delivery)
		if !ok {
			return nil, fmt.Errorf("acknowledge %T: it is not of this queue", given)
		}
		if err := d.shard.holds(); err != nil {
			return nil, fmt.Errorf("acknowledge delivery %s: %w", d.pos, err)
		}
		if !d.shard.acknowledged(d) {
			open = append(open, d)
		}
	}
	return open, nil
}

// finished ends those of all that are not left.
func finished(all, left []*delivery) {
	still := make(map[*delivery]bool, len(left))
	for _, d := range left {
		still[d] = true
	}
	var done []*delivery
	for _, d := range all {
		if !still[d] {
			d.shard.acked(d)
			done = append(done, d)
		}
	}
	for s, acked := range byShard(done) {
		s.notes.done(acked)
		if s.ctx.Err() != nil {
			s.notes.flush() // nobody tidies any more
		}
	}
}
