package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// publisher sends messages to streams and matches their answers. The server
// answers a stream's messages in the order in which it stored them.
type publisher struct {
	nc     *nats.Conn
	prefix string
	// answered is called for every answer, in order, on one goroutine.
	answered func(*pending, outcome)

	mu   sync.Mutex
	wait map[uint64]*pending
	next uint64
}

// pending is a message that was sent and is not answered.
type pending struct {
	queue *queue
	// chunk is nil for a dead letter.
	chunk *mq.Chunk
	// size is the share of the queue's flight that it holds.
	size int64
	sent time.Time
	// done gets the outcome; it has room for it.
	done chan outcome
}

type outcome struct {
	seq       uint64
	duplicate bool
	err       error
}

// serverError is an answer that refuses a message: the server's code and
// sentence.
type serverError struct {
	Code        int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *serverError) Error() string { return e.Description + " (" + strconv.Itoa(e.Code) + ")" }

func newPublisher(nc *nats.Conn, answered func(*pending, outcome)) (*publisher, error) {
	p := &publisher{nc: nc, prefix: nats.NewInbox() + ".", answered: answered, wait: map[uint64]*pending{}}
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

// send hands a message to the server. On an error it was certainly not sent,
// and e has no outcome.
func (p *publisher) send(subject string, h nats.Header, body []byte, e *pending) error {
	e.sent, e.done = time.Now(), make(chan outcome, 1)
	p.mu.Lock()
	p.next++
	token := p.next
	p.wait[token] = e
	p.mu.Unlock()
	err := p.nc.PublishMsg(&nats.Msg{
		Subject: subject, Header: h, Data: body, Reply: p.prefix + strconv.FormatUint(token, 36),
	})
	if err == nil {
		return nil
	}
	if p.take(token) == nil {
		return nil // the lost connection has given it its outcome meanwhile
	}
	return err
}

func (p *publisher) take(token uint64) *pending {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.wait[token]
	delete(p.wait, token)
	return e
}

func (p *publisher) receive(m *nats.Msg) {
	token, err := strconv.ParseUint(strings.TrimPrefix(m.Subject, p.prefix), 36, 64)
	if err != nil {
		return
	}
	if e := p.take(token); e != nil {
		p.finish(e, parseAnswer(m))
	}
}

func (p *publisher) finish(e *pending, o outcome) {
	p.answered(e, o)
	e.done <- o
}

// fail ends all that wait with err.
func (p *publisher) fail(err error) {
	p.failBefore(time.Now().Add(time.Hour), err)
}

// failBefore ends those sent before at, and returns their queues.
func (p *publisher) failBefore(at time.Time, err error) map[*queue]bool {
	p.mu.Lock()
	var late []*pending
	for token, e := range p.wait {
		if e.sent.Before(at) {
			late = append(late, e)
			delete(p.wait, token)
		}
	}
	p.mu.Unlock()
	queues := map[*queue]bool{}
	for _, e := range late {
		queues[e.queue] = true
		p.finish(e, outcome{err: err})
	}
	return queues
}

// parseAnswer reads what the server says of a message.
func parseAnswer(m *nats.Msg) outcome {
	if m.Header.Get("Status") == "503" && len(m.Data) == 0 {
		return outcome{err: fmt.Errorf("%w: no stream takes it", mq.ErrUnavailable)}
	}
	var a struct {
		Error     *serverError `json:"error"`
		Seq       uint64       `json:"seq"`
		Duplicate bool         `json:"duplicate"`
	}
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return outcome{err: fmt.Errorf("%w: unreadable answer: %w", mq.ErrOutcomeUnknown, err)}
	}
	switch {
	case a.Error != nil:
		return outcome{err: classify(a.Error)}
	case a.Seq == 0:
		return outcome{err: fmt.Errorf("%w: answer without a sequence", mq.ErrOutcomeUnknown)}
	}
	return outcome{seq: a.Seq, duplicate: a.Duplicate}
}

// Codes of the server for a message that it did not store.
const (
	codeStoreFailed   = 10077
	codeMaxPayload    = 10054
	codeNoResources   = 10023
	codeLimits        = 10028
	codeStorageLimits = 10047
)

// classify turns a refusal into an error of the contract. An error answer
// means that nothing was stored: after a failed write the server does not
// answer at all.
func classify(e *serverError) error {
	switch {
	case e.Code == codeStoreFailed && strings.Contains(e.Description, "too large"), e.Code == codeMaxPayload:
		return fmt.Errorf("%w: %w", mq.ErrTooLarge, e)
	case e.Code == codeStoreFailed && strings.Contains(e.Description, "maximum"),
		e.Code == codeNoResources, e.Code == codeLimits, e.Code == codeStorageLimits:
		return fmt.Errorf("%w: %w", mq.ErrFull, e)
	case e.Code == codeStoreFailed:
		return fmt.Errorf("%w: %w", mq.ErrOutcomeUnknown, e)
	}
	return fmt.Errorf("%w: %w", mq.ErrUnavailable, e)
}

// await waits for a message's outcome until ctx or the timeout ends.
func (e *pending) await(ctx context.Context, timeout time.Duration) outcome {
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
		return outcome{err: fmt.Errorf("%w: %w", mq.ErrOutcomeUnknown, context.Cause(ctx))}
	case <-late.C:
		return outcome{err: fmt.Errorf("%w: no answer in %s", mq.ErrOutcomeUnknown, timeout)}
	}
}

// sendError tells a send that failed from one that was refused for good.
func sendError(err error) error {
	if errors.Is(err, nats.ErrMaxPayload) {
		return fmt.Errorf("%w: %w", mq.ErrTooLarge, err)
	}
	return fmt.Errorf("%w: %w", mq.ErrUnavailable, err)
}
