// Package nats carries notices between processes over core NATS messages. Such a
// message may get lost, which is found out: each process counts what it tells and
// gives a sign of life every two seconds, with the count. What is missing, a process
// that falls silent, a connection that was lost and signs of life that do not come
// back to this process are a Lost to everyone who listens here.
package nats

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/notice"
	"github.com/wavehouse/wavehouse/internal/notice/local"
)

const (
	// maxOutgoing bounds the notices that wait to be sent, in bytes.
	maxOutgoing = 8 << 20
	// answerTimeout is how long a question waits for an answer.
	answerTimeout = time.Second
	// endTimeout bounds the sending of what was told before the end.
	endTimeout = 2 * time.Second
)

// Options of New; all but Beat are required.
type Options struct {
	// Conn is closed by the caller, after Run returned.
	Conn *nats.Conn
	// Prefix is what the subjects begin with; it ends with a dot.
	Prefix string
	Logger *slog.Logger
	// Beat is the time between signs of life, the same in all processes; 0 is two
	// seconds.
	Beat time.Duration
}

// Bus implements notice.Bus. What this process tells is handled here without the
// cluster, so that it never gets lost here.
type Bus struct {
	o        Options
	name     string
	here     *local.Bus
	listened bool
	progress func(mq.Topic) (notice.Progress, bool)
	wake     chan struct{} // has room for one

	mu       sync.Mutex
	outgoing []*message
	weight   int
	told     uint64
	others   others
	// unheard counts beats since something of this process came back to it.
	unheard int
}

var _ notice.Bus = (*Bus)(nil)

// New makes a Bus; Run carries.
func New(o Options) *Bus {
	if o.Beat <= 0 {
		o.Beat = beatEvery
	}
	return &Bus{o: o, name: rand.Text(), here: local.New(), wake: make(chan struct{}, 1), others: others{}}
}

// Listen implements notice.Bus.
func (b *Bus) Listen(handle func([]notice.Notice)) {
	b.listened = true
	b.here.Listen(handle)
}

// Answer implements notice.Bus.
func (b *Bus) Answer(progress func(mq.Topic) (notice.Progress, bool)) {
	b.progress = progress
	b.here.Answer(progress)
}

// Tell implements notice.Bus.
func (b *Bus) Tell(n notice.Notice) {
	b.here.Tell(n)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.told++
	if b.weight > maxOutgoing {
		return // the count tells
	}
	m := &message{From: b.name, N: b.told}
	m.put(n)
	b.outgoing = append(b.outgoing, m)
	b.weight += n.Weight()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Flush implements notice.Bus.
func (b *Bus) Flush(ctx context.Context) error { return b.here.Flush(ctx) }

// Progress implements notice.Bus. Nobody answers for a second when no process has
// the table.
func (b *Bus) Progress(ctx context.Context, t mq.Topic) (notice.Progress, error) {
	if p, err := b.here.Progress(ctx, t); err == nil {
		return p, nil
	}
	bound, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	m, err := b.o.Conn.RequestWithContext(bound, b.o.Prefix+"progress", encode(question{t.Tenant, []byte(t.Table)}))
	if err != nil {
		if ctx.Err() != nil {
			return notice.Progress{}, fmt.Errorf("ask for the progress of %s: %w", t.Table, context.Cause(ctx))
		}
		return notice.Progress{}, fmt.Errorf("%w: %s: %w", notice.ErrNoAnswer, t.Table, err)
	}
	var a answer
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return notice.Progress{}, fmt.Errorf("%w: %s: unreadable answer: %w", notice.ErrNoAnswer, t.Table, err)
	}
	return a.progress()
}

// Run implements notice.Bus.
func (b *Bus) Run(ctx context.Context) error {
	var handling sync.WaitGroup
	defer handling.Wait()
	here, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	handling.Go(func() { _ = b.here.Run(here) }) // it only ends
	subscriptions, err := b.subscribe()
	defer func() {
		for _, s := range subscriptions {
			_ = s.Unsubscribe() // a connection that is closed has none
		}
	}()
	if err != nil {
		return err
	}
	b.carry(ctx)
	b.send(true)
	if err := b.o.Conn.FlushTimeout(endTimeout); err != nil {
		b.o.Logger.Debug("the last notices may be lost", "error", err)
	}
	return nil
}

func (b *Bus) subscribe() (all []*nats.Subscription, err error) {
	add := func(subject string, handle nats.MsgHandler) {
		if err != nil {
			return
		}
		var s *nats.Subscription
		if s, err = b.o.Conn.Subscribe(b.o.Prefix+subject, handle); err != nil {
			err = fmt.Errorf("subscribe to %s: %w", b.o.Prefix+subject, err)
			return
		}
		all = append(all, s)
	}
	if b.listened {
		add("told", b.receive)
	}
	if b.progress != nil {
		add("progress", b.answer)
	}
	return all, err
}

// carry sends what is told, and watches over what may be missing.
func (b *Bus) carry(ctx context.Context) {
	status := b.o.Conn.StatusChanged(nats.RECONNECTING, nats.CONNECTED)
	defer b.o.Conn.RemoveStatusListener(status)
	beat := time.NewTicker(b.o.Beat)
	defer beat.Stop()
	for {
		select {
		case <-b.wake:
			b.send(false)
		case <-beat.C:
			b.send(false)
			b.beat()
		case _, open := <-status:
			if !open {
				status = nil
			}
			b.here.Tell(notice.Lost{})
		case <-ctx.Done():
			return
		}
	}
}

// send publishes what waits, and a sign of life when nothing does, or at the end.
func (b *Bus) send(bye bool) {
	b.mu.Lock()
	waiting := b.outgoing
	b.outgoing, b.weight = nil, 0
	if len(waiting) == 0 || bye {
		waiting = append(waiting, &message{From: b.name, N: b.told, Bye: bye})
	}
	b.mu.Unlock()
	for _, m := range waiting {
		data := encode(m)
		if limit := b.o.Conn.MaxPayload(); limit > 0 && int64(len(data)) > limit {
			data = encode(message{From: m.From, N: m.N, Lost: true})
		}
		// What cannot be sent is missing in the count.
		if err := b.o.Conn.Publish(b.o.Prefix+"told", data); err != nil && !errors.Is(err, nats.ErrReconnectBufExceeded) {
			b.o.Logger.Debug("a notice is lost", "error", err)
		}
	}
}

// beat says that something may be missing for as long as somebody is out of touch.
func (b *Bus) beat() {
	b.mu.Lock()
	silent := b.others.beat()
	b.unheard++
	unheard := b.unheard
	b.mu.Unlock()
	connected := b.o.Conn.Status() == nats.CONNECTED
	deaf := b.listened && unheard > silence
	if silent || deaf || !connected {
		b.here.Tell(notice.Lost{})
	}
	if deaf && connected && unheard == silence+1 {
		b.o.Logger.Error("processes do not hear of each other's writes", "error", b.Status())
	}
}

// Status says what is wrong while the cluster does not bring back what this process
// tells: then others do not hear it, or it does not hear them.
func (b *Bus) Status() error {
	b.mu.Lock()
	deaf := b.listened && b.unheard > silence
	b.mu.Unlock()
	if !deaf || b.o.Conn.Status() != nats.CONNECTED { // which is told elsewhere
		return nil
	}
	return fmt.Errorf("what this process tells on %stold does not come back to it: the NATS user may lack the permission to publish or to subscribe to %s> (wavehouse mq permissions prints all of them)",
		b.o.Prefix, b.o.Prefix)
}

// receive takes what another process tells.
func (b *Bus) receive(in *nats.Msg) {
	var m message
	if err := json.Unmarshal(in.Data, &m); err != nil {
		b.o.Logger.Warn("unreadable notice", "error", err)
		b.here.Tell(notice.Lost{})
		return
	}
	b.mu.Lock()
	own := m.From == b.name
	missing := false
	if own {
		b.unheard = 0
	} else {
		missing = b.others.heard(&m)
	}
	b.mu.Unlock()
	if missing {
		b.here.Tell(notice.Lost{})
	}
	if n := m.notice(); n != nil && !own {
		b.here.Tell(n)
	}
}

// answer answers for the tables of this process; others answer for theirs.
func (b *Bus) answer(in *nats.Msg) {
	var q question
	if err := json.Unmarshal(in.Data, &q); err != nil {
		return
	}
	if p, ours := b.progress(q.topic()); ours {
		_ = in.Respond(encode(answer{p.Frontier.String(), p.Since, p.Quiet, p.Writes})) // who asked has a timeout
	}
}
