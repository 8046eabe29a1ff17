package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
	"github.com/wavehouse/wavehouse/internal/mq/nats/topology"
)

// Advisories of what the operator took away.
const (
	consumerDeleted = "$JS.EVENT.ADVISORY.CONSUMER.DELETED."
	streamDeleted   = "$JS.EVENT.ADVISORY.STREAM.DELETED."
)

// verifyPause is the least between two verifications.
const verifyPause = time.Second

// watch holds the cluster against what it must be, at boot, every few minutes, and
// whenever there is reason to. It repairs nothing.
type watch struct {
	b    *Broker
	want topology.Wanted
	// wake asks for a verification soon.
	wake chan struct{}
	// ok is whether the last one found all that is required; told is what it
	// found, so that the log says it once, and passing what may heal of it.
	ok      atomic.Bool
	missing atomic.Pointer[error] // what is required and was not found
	told    []string
	passing map[string]bool
	// ackWait and window are the shortest of the cluster, in nanoseconds.
	ackWait, window atomic.Int64
}

func newWatch(b *Broker) *watch {
	return &watch{b: b, wake: make(chan struct{}, 1), want: topology.Wanted{
		Names: b.o.Names, Partitions: b.o.Partitions, Shards: b.o.Shards,
		DuplicateWindow: b.o.remember(), HistoryAge: b.o.HistoryAge, AckWait: b.o.minAckWait,
	}}
}

// soon has the topology verified without waiting for the next time.
func (w *watch) soon() {
	select {
	case w.wake <- struct{}{}:
	default: // it will be
	}
}

// begin listens to what the operator takes away, and verifies until all is as it
// must be or ctx ends.
func (w *watch) begin(ctx context.Context) error {
	for _, subject := range []string{consumerDeleted + ">", streamDeleted + ">"} {
		if _, err := w.b.api.Subscribe(subject, w.advised); err != nil {
			return fmt.Errorf("listen to %s: %w", subject, err)
		}
	}
	var found error
	for {
		report, err := w.verify(ctx)
		switch {
		case err == nil:
			if found = report.Err(); found == nil {
				return nil
			}
		case found == nil || ctx.Err() == nil:
			found = fmt.Errorf("%w: %w", mq.ErrUnavailable, err)
		} // else this look was cut short, and the last one tells more
		select {
		case <-time.After(verifyPause / 4):
		case <-ctx.Done():
			return found
		}
	}
}

// verify looks once, and takes over what it sees.
func (w *watch) verify(ctx context.Context) (*topology.Report, error) {
	want := w.want
	want.MaxMessage = jetstream.MaxChunk(w.b.pub.MaxPayload())
	ctx, cancel := context.WithTimeout(ctx, 12*jetstream.APITimeout)
	defer cancel()
	losses := make([]uint64, len(w.b.parts))
	for n, p := range w.b.parts {
		losses[n] = p.losses()
	}
	report, err := topology.Verify(ctx, w.b.js, want)
	if err != nil {
		return nil, err
	}
	for n, seen := range report.Partitions {
		p := w.b.parts[n]
		slices.Sort(seen.LeftOver)
		if p.leave(seen.LeftOver) {
			w.b.settleAgain()
		}
		p.cover(seen.Covered, losses[n])
		if !seen.Created.IsZero() {
			w.b.adopt(p, epochOf(seen.Created, n))
		}
	}
	missing := report.Err()
	w.missing.Store(&missing)
	w.ok.Store(missing == nil)
	if report.AckWait > 0 {
		w.ackWait.Store(int64(report.AckWait))
	}
	if report.DuplicateWindow > 0 {
		w.window.Store(int64(report.DuplicateWindow))
	}
	w.tell(report)
	return report, nil
}

// tell logs what is found when it is not what was found before. What may heal by
// itself counts once it was found twice.
func (w *watch) tell(r *topology.Report) {
	var found []topology.Finding
	passing := map[string]bool{}
	for _, f := range r.Findings {
		if f.Transient {
			passing[f.String()] = true
		}
		if !f.Transient || w.passing[f.String()] {
			found = append(found, f)
		}
	}
	w.passing = passing
	told := make([]string, 0, len(found))
	for _, f := range found {
		told = append(told, f.String())
	}
	slices.Sort(told)
	if slices.Equal(told, w.told) {
		return
	}
	w.told = told
	for _, f := range found {
		if f.Required {
			w.b.log.Error("the NATS cluster is not as it must be", "where", f.Where, "finding", f.What)
		} else {
			w.b.log.Warn("the NATS cluster is not as is recommended", "where", f.Where, "finding", f.What)
		}
	}
	if len(found) == 0 {
		w.b.log.Info("the NATS cluster is as it must be")
	}
}

// run verifies until ctx ends.
func (w *watch) run(ctx context.Context) {
	for {
		next := time.NewTimer(w.every())
		select {
		case <-ctx.Done():
			next.Stop()
			return
		case <-w.wake:
		case <-next.C:
		}
		next.Stop()
		if w.b.api.IsConnected() {
			if _, err := w.verify(ctx); err != nil && ctx.Err() == nil {
				w.b.log.Warn("the NATS cluster cannot be verified", "error", err)
			}
		}
		pause(ctx, verifyPause)
	}
}

// Status lists what the cluster lacks that is required, nil for nothing.
func (b *Broker) Status() error {
	if b.watch.ok.Load() {
		return nil
	}
	if missing := b.watch.missing.Load(); missing != nil && *missing != nil {
		return *missing
	}
	return errors.New("something of the NATS cluster is gone, and is being looked for")
}

// every is the time until the next verification. Shards that are left over are let
// go of by the one that finds them drained, and what was missing is found.
func (w *watch) every() time.Duration {
	if !w.ok.Load() {
		return min(w.b.o.drainEvery, w.b.o.verifyEvery)
	}
	for _, p := range w.b.parts {
		if len(p.left()) > 0 {
			return min(w.b.o.drainEvery, w.b.o.verifyEvery)
		}
	}
	return w.b.o.verifyEvery
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// advised stops publishing to what was taken away.
func (w *watch) advised(m *client.Msg) {
	if rest, ok := strings.CutPrefix(m.Subject, consumerDeleted); ok {
		stream, durable, _ := strings.Cut(rest, ".")
		for _, p := range w.b.parts {
			for s := range w.b.o.Shards {
				if p.stream == stream && w.b.o.Names.Shard(s) == durable {
					w.gone(p, s)
				}
			}
		}
		return
	}
	for _, p := range w.b.parts {
		if strings.TrimPrefix(m.Subject, streamDeleted) == p.stream {
			for s := range w.b.o.Shards {
				w.gone(p, s)
			}
		}
	}
}

// gone notes that a shard's durable is no more.
func (w *watch) gone(p *partition, shard int) {
	p.uncover(shard)
	w.ok.Store(false)
	w.b.log.Error("a durable of the queue is gone: what belongs to it is refused", "stream", p.stream, "durable", w.b.o.Names.Shard(shard))
	w.soon()
}

// follow looks how far behind each history is, and whether the operator changed
// something, of which the server says nothing.
func (w *watch) follow(ctx context.Context) {
	marks := make([]mark, len(w.b.parts))
	seen := ""
	for ctx.Err() == nil {
		for n, p := range w.b.parts {
			_, is, err := p.state(ctx)
			kept, err2 := p.kept(ctx)
			if err == nil && err2 == nil {
				p.behind.Store(int64(marks[n].behind(is.LastSeq, kept.LastSeq, time.Now())))
			}
		}
		if now, err := topology.Outline(ctx, w.b.js, w.want); err == nil {
			if now != seen {
				w.soon()
			}
			seen = now
		} // else the connection is away, and what comes back is verified
		pause(ctx, w.b.o.watchEvery)
	}
}

// mark is a sequence that a history was seen to lack, and when.
type mark struct {
	seq uint64
	at  time.Time
}

// behind is for how long at least a history has lacked something. A history that
// has caught up with the mark is held to what is there now.
func (m *mark) behind(written, kept uint64, now time.Time) time.Duration {
	if kept >= written {
		*m = mark{}
		return 0
	}
	if m.at.IsZero() || kept >= m.seq {
		*m = mark{written, now}
	}
	return now.Sub(m.at)
}
