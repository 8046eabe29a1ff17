package nats

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
)

// What is asked of a history is asked of its leader, or read through a consumer:
// a replica that is behind would answer a plain read as if nothing more came.
const (
	// lateHistory is how long a reader waits for a history that is behind.
	lateHistory = 30 * time.Second
	// latePoll is how often it looks.
	latePoll = 20 * time.Millisecond
	// replayExpiry is how long the server keeps the consumer of a replay that
	// does not ask.
	replayExpiry = 10 * time.Second
	// replayBytes is about what a replay reads at once.
	replayBytes = 4 << 20
)

// caughtUp waits until the history has a sequence, and returns what it has.
func (p *partition) caughtUp(ctx context.Context, seq uint64) (kept natsjs.StreamState, err error) {
	for end := time.Now().Add(lateHistory); ; pause(ctx, latePoll) {
		kept, err = p.kept(ctx)
		if err == nil && kept.LastSeq >= seq {
			return kept, nil
		}
		switch {
		case ctx.Err() != nil:
			return kept, context.Cause(ctx)
		case time.Now().Before(end):
		case err != nil:
			return kept, err
		default:
			return kept, fmt.Errorf("%w: stream %s is %d behind", mq.ErrUnavailable, p.history, seq-kept.LastSeq)
		}
	}
}

// firstKept is the oldest position of a history, zero when it is empty.
func (p *partition) firstKept(kept natsjs.StreamState) mq.Position {
	if kept.Msgs == 0 {
		return mq.Position{}
	}
	return p.position(kept.FirstSeq)
}

// Replay implements mq.History.
func (b *Broker) Replay(ctx context.Context, t mq.Topic, from, until mq.Position, handle func(mq.Chunk, mq.Position) error) error {
	ctx, done, err := b.life.Begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	p, _ := b.of(t)
	if err := p.replay(ctx, t, from, until, handle); err != nil {
		return fmt.Errorf("replay table %q of tenant %s: %w", t.Table, t.Tenant, err)
	}
	return nil
}

func (p *partition) replay(ctx context.Context, t mq.Topic, from, until mq.Position, handle func(mq.Chunk, mq.Position) error) error {
	of, after := mq.SplitPosition(from)
	untilOf, to := mq.SplitPosition(until)
	epoch := p.epoch.Load()
	if (!from.IsZero() && of != epoch) || (!until.IsZero() && untilOf != epoch) {
		kept, err := p.kept(ctx)
		if err != nil {
			return err
		}
		return &mq.ReplayGap{Reason: mq.GapReset, First: p.firstKept(kept)}
	}
	if after >= to {
		return nil
	}
	kept, err := p.caughtUp(ctx, to)
	if err != nil {
		return err
	}
	if gap := p.gapAt(after+1, kept); gap != nil {
		return gap
	}
	subjects, err := p.subjects(ctx, t, to)
	if err != nil {
		return err
	}
	r := &replay{p: p, subjects: subjects, next: after + 1, to: to, handle: handle}
	for _, subject := range subjects {
		last, err := p.lastOf(ctx, subject)
		if err != nil {
			return err
		}
		r.last = max(r.last, min(last, to))
	}
	return r.run(ctx)
}

// subjects are those of a topic in a history that has the sequence to. What came while
// other shards were counted lies under another. A reader asks for each by its name: for
// a pattern the server would look at every message of a history of many tables.
func (p *partition) subjects(ctx context.Context, t mq.Topic, to uint64) ([]string, error) {
	info, err := jetstream.Info(ctx, p.b.js, p.history, natsjs.WithSubjectFilter(jetstream.Subject(p.b.o.Names.AnyShardPrefix(p.n), t)))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", mq.ErrUnavailable, err)
	}
	if info.State.LastSeq < to { // its leader is another than the one that had it
		return nil, fmt.Errorf("%w: stream %s is %d behind", mq.ErrUnavailable, p.history, to-info.State.LastSeq)
	}
	return slices.Sorted(maps.Keys(info.State.Subjects)), nil
}

// gapAt says whether what begins at next is no longer whole.
func (p *partition) gapAt(next uint64, kept natsjs.StreamState) error {
	if next >= kept.FirstSeq {
		return nil
	}
	return &mq.ReplayGap{Reason: mq.GapRetention, First: p.firstKept(kept)}
}

// lastOf asks the history's leader for the newest message of a subject, 0 for
// none.
func (p *partition) lastOf(ctx context.Context, subject string) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, jetstream.APITimeout)
	defer cancel()
	ask, err := json.Marshal(map[string]any{"last_by_subj": subject, "no_hdr": true})
	if err != nil {
		return 0, err
	}
	m, err := p.b.api.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+p.history, ask)
	if err != nil {
		return 0, fmt.Errorf("%w: read stream %s: %w", mq.ErrUnavailable, p.history, err)
	}
	var got struct {
		Error   *natsjs.APIError `json:"error"`
		Message struct {
			Seq uint64 `json:"seq"`
		} `json:"message"`
	}
	if err := json.Unmarshal(m.Data, &got); err != nil {
		return 0, fmt.Errorf("read stream %s: %w", p.history, err)
	}
	switch {
	case got.Error == nil:
		return got.Message.Seq, nil
	case got.Error.ErrorCode == natsjs.JSErrCodeMessageNotFound:
		return 0, nil
	}
	return 0, fmt.Errorf("%w: read stream %s: %w", mq.ErrUnavailable, p.history, got.Error)
}

// replay reads subjects of a history up to a sequence that it is known to hold, so
// that it never ends early.
type replay struct {
	p        *partition
	subjects []string
	// next is where to go on, last the newest message to show.
	next, to, last uint64
	handle         func(mq.Chunk, mq.Position) error
	consumer       natsjs.Consumer
	// delivered counts what came from the consumer: a number that is left out
	// is a message that got lost on the way.
	delivered uint64
	batch     int
}

func (r *replay) run(ctx context.Context) error {
	r.batch = 16
	for idle := time.Now(); r.next <= r.last; {
		msgs, err := r.read(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		kept, err2 := r.p.kept(ctx)
		if err = errors.Join(err, err2); err != nil || len(msgs) == 0 {
			if err2 == nil && kept.FirstSeq > r.last {
				return r.p.gapAt(r.next, kept)
			}
			if time.Since(idle) > lateHistory {
				return fmt.Errorf("%w: nothing comes of stream %s: %w", mq.ErrUnavailable, r.p.history, err)
			}
			pause(ctx, latePoll)
			continue
		}
		if gap := r.p.gapAt(r.next, kept); gap != nil {
			return gap
		}
		if err := r.show(ctx, msgs); err != nil {
			return err
		}
		idle = time.Now()
	}
	return nil
}

func (r *replay) show(ctx context.Context, msgs []natsjs.Msg) error {
	for _, m := range msgs {
		meta, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("read stream %s: %w", r.p.history, err)
		}
		if r.next = meta.Sequence.Stream + 1; meta.Sequence.Stream > r.to {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := r.handle(decode(m.Subject(), m.Headers(), m.Data()), r.p.position(meta.Sequence.Stream)); err != nil {
			return err
		}
	}
	return nil
}

// read takes what the consumer has at once, and leaves it to be made anew when it
// is not what was expected.
func (r *replay) read(ctx context.Context) (msgs []natsjs.Msg, err error) {
	if r.consumer == nil {
		config := natsjs.ConsumerConfig{
			DeliverPolicy: natsjs.DeliverByStartSequencePolicy, OptStartSeq: r.next, FilterSubjects: r.subjects,
			AckPolicy: natsjs.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: replayExpiry,
		}
		if len(r.subjects) == 1 {
			config.FilterSubject, config.FilterSubjects = r.subjects[0], nil
		}
		if r.consumer, err = r.p.b.js.CreateConsumer(ctx, r.p.history, config); err != nil {
			return nil, err
		}
		r.delivered = 0
	}
	got, err := r.consumer.FetchNoWait(r.batch)
	if err != nil {
		r.consumer = nil
		return nil, err
	}
	bytes := 0
	for m := range got.Messages() {
		meta, err := m.Metadata()
		if err != nil || meta.Sequence.Consumer != r.delivered+1 {
			r.consumer = nil
			return msgs, nil // what came before is in order
		}
		r.delivered++
		bytes += len(m.Data())
		msgs = append(msgs, m)
	}
	if len(msgs) > 0 {
		r.batch = min(max(replayBytes/max(bytes/len(msgs), 1), 1), readBatch)
	}
	if got.Error() != nil {
		r.consumer = nil
	}
	return msgs, nil
}

// Tail implements mq.History.
func (b *Broker) Tail(ctx context.Context, t mq.Topic) (mq.Position, error) {
	ctx, done, err := b.life.Begin(ctx)
	if err != nil {
		return mq.Position{}, err
	}
	defer done()
	p, _ := b.of(t)
	epoch, state, err := p.state(ctx)
	if err != nil || state.LastSeq == 0 {
		return mq.Position{}, err
	}
	return mq.NewPosition(epoch, state.LastSeq), nil
}

// FirstKept implements mq.History.
func (b *Broker) FirstKept(ctx context.Context, t mq.Topic) (mq.Position, error) {
	ctx, done, err := b.life.Begin(ctx)
	if err != nil {
		return mq.Position{}, err
	}
	defer done()
	p, _ := b.of(t)
	kept, err := p.kept(ctx)
	if err != nil || kept.FirstSeq <= 1 {
		return mq.Position{}, err
	}
	return p.firstKept(kept), nil
}

// PositionAt implements mq.History. Chunks are found by the time at which the
// partition stored them, which is never before they were received.
func (b *Broker) PositionAt(ctx context.Context, t mq.Topic, at time.Time) (mq.Position, error) {
	ctx, done, err := b.life.Begin(ctx)
	if err != nil {
		return mq.Position{}, err
	}
	defer done()
	p, _ := b.of(t)
	epoch, state, err := p.state(ctx)
	if err != nil || state.LastSeq == 0 {
		return mq.Position{}, err
	}
	if _, err := p.caughtUp(ctx, state.LastSeq); err != nil {
		return mq.Position{}, err
	}
	// The server finds the place; a replica that is behind finds an earlier one.
	consumer, err := b.js.CreateConsumer(ctx, p.history, natsjs.ConsumerConfig{
		DeliverPolicy: natsjs.DeliverByStartTimePolicy, OptStartTime: &at, AckPolicy: natsjs.AckNonePolicy,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Second,
	})
	if err != nil {
		return mq.Position{}, fmt.Errorf("%w: find a position in stream %s: %w", mq.ErrUnavailable, p.history, err)
	}
	return mq.NewPosition(epoch, consumer.CachedInfo().Delivered.Stream), nil
}
