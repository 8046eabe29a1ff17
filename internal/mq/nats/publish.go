package nats

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
)

// MaxChunkBytes implements mq.Publisher. It is what the server takes that this
// process is connected to.
func (b *Broker) MaxChunkBytes() int { return jetstream.MaxChunk(b.pub.MaxPayload()) }

// DuplicateWindow implements mq.Publisher.
func (b *Broker) DuplicateWindow() time.Duration { return time.Duration(b.watch.window.Load()) }

// Publish implements mq.Publisher.
func (b *Broker) Publish(ctx context.Context, c mq.Chunk) (mq.Position, error) {
	if err := b.life.Enter(); err != nil {
		return mq.Position{}, err
	}
	defer b.life.Leave()
	start := time.Now()
	pos, err := b.publish(ctx, &c)
	b.metrics.Published(err, time.Since(start))
	if err != nil {
		return mq.Position{}, fmt.Errorf("publish to table %q of tenant %s: %w", c.Table, c.Tenant, err)
	}
	return pos, nil
}

func (b *Broker) publish(ctx context.Context, c *mq.Chunk) (mq.Position, error) {
	p, at := b.of(c.Topic)
	m := &client.Msg{Subject: b.subject(c.Topic, at), Header: encode(c), Data: c.Body}
	m.Header[client.ExpectedStreamHdr] = []string{p.stream}
	size, most := jetstream.Size(m.Subject, m.Header, c.Body), b.MaxChunkBytes()
	if size > most {
		return mq.Position{}, fmt.Errorf("%w: %d bytes, at most %d", mq.ErrTooLarge, size, most)
	}
	if err := b.budgets.take(c.Tenant, size); err != nil {
		return mq.Position{}, err
	}
	seq, err := b.send(ctx, p, at.shard, m)
	if err != nil {
		if !errors.Is(err, mq.ErrOutcomeUnknown) {
			b.budgets.giveBack(c.Tenant, size)
		}
		return mq.Position{}, fmt.Errorf("stream %s: %w", p.stream, err)
	}
	return p.position(seq), nil
}

// send sends the message, a few times under its id, until its outcome is known.
// Once an attempt may have been stored, no later refusal says that nothing was.
func (b *Broker) send(ctx context.Context, p *partition, shard int, m *client.Msg) (seq uint64, err error) {
	unknown := false
	for n := range attempts {
		if n > 0 {
			pause(ctx, retryPause<<(2*(n-1)))
		}
		o := b.attempt(ctx, p, shard, m)
		if o.Err == nil {
			return o.Seq, nil
		}
		if !unknown || errors.Is(o.Err, mq.ErrOutcomeUnknown) {
			err = o.Err
		}
		unknown = unknown || errors.Is(o.Err, mq.ErrOutcomeUnknown)
		again := errors.Is(o.Err, mq.ErrOutcomeUnknown) || errors.Is(o.Err, mq.ErrUnavailable)
		if !again || errors.Is(o.Err, errUncovered) || ctx.Err() != nil {
			break
		}
	}
	return 0, err
}

// errUncovered says that no durable would get the message.
var errUncovered = errors.New("no durable covers the shard")

// attempt sends the message once and waits for its outcome.
func (b *Broker) attempt(ctx context.Context, p *partition, shard int, m *client.Msg) jetstream.Outcome {
	if !p.covers(shard) {
		return jetstream.Outcome{Err: fmt.Errorf("%w: %w %d", mq.ErrUnavailable, errUncovered, shard)}
	}
	e := jetstream.NewPending(p.stream, nil)
	if err := b.pubs.Send(ctx, m, &e); err != nil {
		return jetstream.Outcome{Err: err}
	}
	o := e.Await(ctx, b.o.PublishTimeout)
	switch {
	case errors.Is(o.Err, jetstream.ErrNoStream):
		b.watch.soon()
	case o.Err == nil && o.Stream != p.stream:
		// The message is not where it is looked for.
		b.watch.ok.Store(false)
		b.watch.soon()
		o.Err = fmt.Errorf("%w: stream %q answered", mq.ErrUnavailable, o.Stream)
	}
	return o
}

// A partition has many topics, so it knows a chunk by its topic and its id. A
// chunk without one gets one for the attempts to send it.
const (
	idMark    = ":"
	noIDStart = "~"
)

func encode(c *mq.Chunk) client.Header {
	h := jetstream.EncodeChunk(c)
	if id := h.Get(client.MsgIdHdr); id != "" {
		h[client.MsgIdHdr] = []string{jetstream.Subject("", c.Topic) + idMark + id}
	} else {
		h[client.MsgIdHdr] = []string{noIDStart + rand.Text()}
	}
	return h
}

// decode reads a stored message, whose headers it may change.
func decode(subject string, h client.Header, body []byte) mq.Chunk {
	if id := h.Get(client.MsgIdHdr); id != "" {
		_, own, _ := strings.Cut(id, idMark)
		h[client.MsgIdHdr] = []string{own}
	}
	return jetstream.DecodeChunk(subject, h, body)
}
