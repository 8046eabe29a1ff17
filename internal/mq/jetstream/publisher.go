package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// Publisher sends messages to streams and matches their answers. The server
// answers a stream's messages in the order in which it stored them.
type Publisher struct {
	nc     *nats.Conn
	prefix string

	mu   sync.Mutex
	wait map[uint64]*Pending
	next uint64
}

// Owner of a message learns its outcome whether or not somebody still waits
// for it.
type Owner interface {
	// Answered is called once for every message that was sent, before Await
	// returns, in the order of the answers and on one goroutine, unless the
	// publisher gives up on it.
	Answered(Outcome)
}

// Pending is a message that was sent and is not answered.
type Pending struct {
	stream string
	owner  Owner
	sent   time.Time
	// done gets the outcome; it has room for it.
	done chan Outcome
}

// NewPending is for a message to a stream. Owner may be nil.
func NewPending(stream string, owner Owner) Pending {
	return Pending{stream: stream, owner: owner, done: make(chan Outcome, 1)}
}

// NewPublisher subscribes to answers on nc, which the caller closes.
func NewPublisher(nc *nats.Conn) (*Publisher, error) {
	p := &Publisher{nc: nc, prefix: nats.NewInbox() + ".", wait: map[uint64]*Pending{}}
	sub, err := nc.Subscribe(p.prefix+"*", p.receive)
	if err == nil {
		// One short answer per message in flight, which are bounded.
		err = sub.SetPendingLimits(-1, -1)
	}
	if err != nil {
		return nil, fmt.Errorf("subscribe to publish answers: %w", err)
	}
	return p, nil
}

// Send hands a message to the server. On an error it was certainly not stored,
// and e has no outcome. It sets m's reply subject.
func (p *Publisher) Send(ctx context.Context, m *nats.Msg, e *Pending) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", mq.ErrUnavailable, context.Cause(ctx))
	}
	e.sent = time.Now()
	p.mu.Lock()
	p.next++
	token := p.next
	p.wait[token] = e
	p.mu.Unlock()
	m.Reply = p.prefix + strconv.FormatUint(token, 36)
	err := p.SendPart(m)
	if err == nil || p.take(token) == nil {
		return nil // or the lost connection has given it its outcome meanwhile
	}
	return err
}

// SendPart hands the server a message that it does not answer: one of a batch,
// before the last.
func (p *Publisher) SendPart(m *nats.Msg) error {
	err := p.nc.PublishMsg(m)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: %w", mq.ErrTooLarge, err)
	}
	return fmt.Errorf("%w: %w", mq.ErrUnavailable, err)
}

func (p *Publisher) take(token uint64) *Pending {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.wait[token]
	delete(p.wait, token)
	return e
}

func (p *Publisher) receive(m *nats.Msg) {
	token, err := strconv.ParseUint(strings.TrimPrefix(m.Subject, p.prefix), 36, 64)
	if err != nil {
		return
	}
	if e := p.take(token); e != nil {
		e.finish(parseAnswer(m))
	}
}

func (e *Pending) finish(o Outcome) {
	if e.owner != nil {
		e.owner.Answered(o)
	}
	e.done <- o
}

// Waiting counts messages that are not answered.
func (p *Publisher) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.wait)
}

// Fail gives up on all messages with err.
func (p *Publisher) Fail(err error) {
	p.FailBefore(time.Now().Add(time.Hour), err)
}

// FailBefore gives up on those sent before at, and returns their streams.
func (p *Publisher) FailBefore(at time.Time, err error) map[string]bool {
	return p.fail(func(e *Pending) bool { return e.sent.Before(at) }, err)
}

// FailStream gives up on those of a stream.
func (p *Publisher) FailStream(stream string, err error) {
	p.fail(func(e *Pending) bool { return e.stream == stream }, err)
}

// Streams are those of which messages are not answered.
func (p *Publisher) Streams() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	streams := map[string]bool{}
	for _, e := range p.wait {
		streams[e.stream] = true
	}
	return streams
}

func (p *Publisher) fail(which func(*Pending) bool, err error) map[string]bool {
	p.mu.Lock()
	var late []*Pending
	for token, e := range p.wait {
		if which(e) {
			late = append(late, e)
			delete(p.wait, token)
		}
	}
	p.mu.Unlock()
	streams := map[string]bool{}
	for _, e := range late {
		streams[e.stream] = true
		e.finish(Outcome{Err: err})
	}
	return streams
}

// Await waits for a message's outcome until ctx or the timeout ends.
func (e *Pending) Await(ctx context.Context, timeout time.Duration) Outcome {
	late := time.NewTimer(timeout)
	defer late.Stop()
	select {
	case o := <-e.done:
		return o
	case <-ctx.Done():
		select {
		case o := <-e.done:
			return o
		default:
		}
		return Outcome{Err: fmt.Errorf("%w: %w", mq.ErrOutcomeUnknown, context.Cause(ctx))}
	case <-late.C:
		return Outcome{Err: fmt.Errorf("%w: no answer in %s", mq.ErrOutcomeUnknown, timeout)}
	}
}
