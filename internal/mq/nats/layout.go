package nats

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// Processes that count other partitions or shards would share other things: so all
// that deliver keep one record of it in the bucket, and who finds another's that is
// kept waits until it is not. The last one to end empties it.
const (
	layoutKey = "layout"
	// layoutEvery is how often the record is looked at, and kept by writing it
	// again; layoutOld is when nobody does.
	layoutEvery = 5 * time.Second
	layoutOld   = 20 * time.Second
)

// layout is one process's part in that.
type layout struct {
	b *Broker
	// seen is the record's last revision, and since when it is that.
	seen  uint64
	since time.Time
	// every and old are layoutEvery and layoutOld, but in tests.
	every, old time.Duration
}

func (b *Broker) newLayout() *layout {
	l := &layout{b: b, every: layoutEvery, old: layoutOld}
	if b.o.layoutOld > 0 {
		l.every, l.old = b.o.layoutOld/4, b.o.layoutOld
	}
	return l
}

// mine is what this process counts.
func (l *layout) mine() string {
	return strconv.Itoa(l.b.o.Partitions) + " partitions of " + strconv.Itoa(l.b.o.Shards) + " shards"
}

// await returns once the record says what this process counts, or ctx ends.
func (l *layout) await(ctx context.Context) {
	told := ""
	for ctx.Err() == nil {
		theirs, err := l.look(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			l.b.log.Warn("what the processes of the queue share cannot be compared yet", "error", err)
		case err == nil && theirs == "":
			return
		case theirs != told:
			told = theirs
			l.b.log.Error("other processes of the queue count other shards: this one delivers nothing until they are gone; mq.nats.partitions and mq.nats.shards must be the same everywhere",
				"this", l.mine(), "others", theirs)
		}
		pause(ctx, l.every/4)
	}
}

// keep keeps the record until it is another's or ctx ends.
func (l *layout) keep(ctx context.Context) {
	for ctx.Err() == nil {
		pause(ctx, l.every)
		if theirs, err := l.look(ctx); err == nil && theirs != "" {
			l.b.log.Error("other processes of the queue count other shards: this one lets go of its own", "this", l.mine(), "others", theirs)
			return
		} // else the leases say who is there
	}
}

// look reads the record, and writes it where it is due. It returns what others
// count, "" when that is the same.
func (l *layout) look(ctx context.Context) (theirs string, err error) {
	kept, revision, err := l.b.readKey(ctx, layoutKey)
	if err != nil {
		return "", err
	}
	value := string(kept)
	now := time.Now()
	if revision != l.seen || l.since.IsZero() {
		l.seen, l.since = revision, now
	}
	still := now.Sub(l.since)
	switch {
	case value == "", value == l.mine() && still >= l.every, value != l.mine() && still >= l.old:
		_, err := l.b.writeKey(ctx, layoutKey, []byte(l.mine()), revision)
		return "", err
	case value != l.mine():
		return value, nil
	}
	return "", nil
}

// release empties the record, so that others need not wait until it is old. Whoever
// delivers still, unseen, writes it again when it looks next.
func (l *layout) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, noteTimeout)
	defer cancel()
	value, revision, err := l.b.readKey(ctx, layoutKey)
	if err == nil && string(value) == l.mine() {
		_, err = l.b.writeKey(ctx, layoutKey, nil, revision)
	}
	if err != nil {
		l.b.log.Debug("what the processes of the queue share is given up by waiting", "error", err)
	}
}

// errDisagree ends a membership.
var errDisagree = errors.New("other processes count other shards")

// agreed returns a context that ends when other processes count other shards, once
// they do not. Without a bucket this process is alone.
func (c *consumption) agreed() (ctx context.Context, end context.CancelCauseFunc, err error) {
	ctx, end = context.WithCancelCause(c.ctx)
	if c.b.o.Names.Bucket == "" {
		return ctx, end, nil
	}
	l := c.b.newLayout()
	l.await(ctx)
	if c.ctx.Err() != nil {
		end(nil)
		return nil, nil, mq.ErrClosed
	}
	c.keeping.Go(func() {
		l.keep(ctx)
		end(errDisagree)
		if c.ctx.Err() != nil && c.alone() && c.b.api.IsConnected() {
			l.release(context.WithoutCancel(ctx))
		}
	})
	return ctx, end, nil
}
