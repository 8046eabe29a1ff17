package letters

import (
	"context"
	"errors"
	"fmt"

	"github.com/wavehouse/wavehouse/internal/chunk"
	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/memo"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
)

// maxHeldBytes is how much of named letters is read before they go back.
const maxHeldBytes = 4 << 20

// replay is one call.
type replay struct {
	k *Keeper
	q *Replay
	// rebuilds turn rows of a form into rows of the table.
	rebuilds *memo.Memo[*chunk.Form, *record.Rebuild]
	result   Replayed
	// kept says that letters before those to come stay in the store.
	kept bool
}

// all goes through the table's letters, page by page.
func (r *replay) all(ctx context.Context) error {
	var err error
	if r.kept, err = r.left(ctx); err != nil {
		return err
	}
	end := r.k.o.Now().Add(replayTime)
	for left := r.q.Limit; ; {
		page, err := r.q.Store.List(ctx, r.q.Topic.Table, min(pageSize, left), r.result.Cursor)
		if err != nil {
			return err
		}
		groups := groupLetters(page.Letters, page.Next != "")
		for _, group := range groups {
			if err := r.group(ctx, group); err != nil {
				return err
			}
			left -= len(group)
			r.result.Cursor = group[len(group)-1].ID
		}
		switch {
		case page.Next == "":
			r.result.Cursor = ""
			return nil
		case left <= 0, !r.k.o.Now().Before(end):
			return nil
		}
	}
}

// left says whether calls before this one left letters behind.
func (r *replay) left(ctx context.Context) (bool, error) {
	if r.q.Cursor == "" {
		return false, nil
	}
	first, err := r.q.Store.List(ctx, r.q.Topic.Table, 1, "")
	if err != nil {
		return false, err
	}
	next, err := r.q.Store.List(ctx, r.q.Topic.Table, 1, r.q.Cursor)
	if err != nil || len(next.Letters) == 0 {
		return true, err
	}
	return len(first.Letters) == 0 || first.Letters[0].ID != next.Letters[0].ID, nil
}

// named looks at the letters that the caller names, in that order.
func (r *replay) named(ctx context.Context) error {
	r.kept = true
	var letters []mq.DeadLetter
	seen := make(map[string]bool, len(r.q.IDs))
	var bytes int
	for _, id := range r.q.IDs {
		if seen[id] {
			continue
		}
		seen[id] = true
		letter, ok, err := r.q.Store.Get(ctx, id)
		if err != nil {
			return err
		}
		if !ok || letter.Table != r.q.Topic.Table {
			r.result.fail(ReplayFailure{ID: id, Code: CodeGone, Message: "this table has no such dead letter"})
			continue
		}
		letters, bytes = append(letters, letter), bytes+len(letter.Row)
		if bytes >= maxHeldBytes {
			if err := r.groups(ctx, letters); err != nil {
				return err
			}
			letters, bytes = nil, 0
		}
	}
	return r.groups(ctx, letters)
}

func (r *replay) groups(ctx context.Context, letters []mq.DeadLetter) error {
	for _, group := range groupLetters(letters, false) {
		if err := r.group(ctx, group); err != nil {
			return err
		}
	}
	return nil
}

// group takes letters back into the queue and then out of the store, all that
// fit the table.
func (r *replay) group(ctx context.Context, letters []mq.DeadLetter) error {
	if err := ctx.Err(); err != nil {
		return ingest.CanceledError(err)
	}
	chunks, failures := r.chunks(letters)
	if r.q.DryRun {
		r.settle(len(letters)-len(failures), failures)
		return nil
	}
	stored := map[string]bool{}
	var failed error
	for _, c := range chunks {
		if failed = r.publish(ctx, &c); failed != nil {
			break
		}
		for _, id := range c.letters {
			stored[id] = true
		}
	}
	// What is in the queue must leave the letters, whoever has left meanwhile.
	if err := r.discard(context.WithoutCancel(ctx), letters, stored); err != nil {
		return errors.Join(failed, fmt.Errorf("discard replayed letters: %w", err))
	}
	if failed != nil {
		r.settle(len(stored), nil)
		return failed
	}
	r.settle(len(stored), failures)
	return nil
}

func (r *replay) settle(replayed int, failures []ReplayFailure) {
	r.result.Replayed += replayed
	for _, f := range failures {
		r.result.fail(f)
	}
}

// publish makes one chunk durable. It is not called off by ctx: its outcome
// must be known.
func (r *replay) publish(ctx context.Context, c *replayChunk) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.k.o.PublishTimeout)
	defer cancel()
	_, err := r.k.o.Broker.Publish(ctx, c.chunk())
	if err != nil {
		return ingest.PublishError(err)
	}
	return nil
}

// discard removes the letters that are stored: those before the first that
// stays in one go, which is made for many, and the others by name.
func (r *replay) discard(ctx context.Context, letters []mq.DeadLetter, stored map[string]bool) error {
	first := 0
	for !r.kept && first < len(letters) && stored[letters[first].ID] {
		first++
	}
	if first > 0 {
		if _, err := r.q.Store.DiscardThrough(ctx, r.q.Topic.Table, letters[first-1].ID); err != nil {
			return err
		}
	}
	var others []string
	for _, l := range letters[first:] {
		if stored[l.ID] {
			others = append(others, l.ID)
		} else {
			r.kept = true
		}
	}
	if len(others) == 0 {
		return nil
	}
	_, err := r.q.Store.Discard(ctx, others...)
	return err
}
