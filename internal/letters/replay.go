package letters

import (
	"context"
	"time"

	"github.com/wavehouse/wavehouse/internal/chunk"
	"github.com/wavehouse/wavehouse/internal/memo"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/schema"
)

// Bounds of a replay.
const (
	// MaxReplay bounds the letters that one Replay looks at.
	MaxReplay = 100_000
	// MaxReplayFailures bounds the failures that it names; they are all counted.
	MaxReplayFailures = 1000
	// pageSize is how many letters are read at a time.
	pageSize = 1000
	// replayTime is when a Replay looks at no further page.
	replayTime = 20 * time.Second
)

// Codes of letters that stay where they are, beside those of package record.
const (
	// CodeGone: there is no such letter in this table, or no longer.
	CodeGone = "dlq.unknown_id"
	// CodeUnreadable: the letter is a message that never was a row.
	CodeUnreadable = "dlq.unreadable"
)

// Replay says which letters go back, and how.
type Replay struct {
	Topic mq.Topic
	Store mq.DeadLetterStore
	// Table is the table as it is now: rows that do not fit it stay.
	Table *schema.Table
	// MissingAsZero and CutTimes are as in record.DecodeOptions.
	MissingAsZero, CutTimes bool
	// IDs names the letters; empty means all of the table's, from Cursor on.
	IDs    []string
	Cursor string
	// Limit bounds the letters to look at, 1 to MaxReplay.
	Limit int
	// DryRun judges the letters and changes nothing.
	DryRun bool
}

// Replayed says what became of the letters. It accompanies an error too.
type Replayed struct {
	// Replayed letters are durable in the queue and have left the dead
	// letters; Failed ones stay.
	Replayed, Failed int
	// Failures holds the first MaxReplayFailures.
	Failures []ReplayFailure
	// Cursor is where the next call goes on, "" when all were looked at.
	Cursor string
}

// ReplayFailure is a letter that stays, and why.
type ReplayFailure struct {
	ID                    string
	Code, Column, Message string
}

func (r *Replayed) fail(f ReplayFailure) {
	r.Failed++
	if len(r.Failures) < MaxReplayFailures {
		r.Failures = append(r.Failures, f)
	}
}

// Replay puts letters back into the queue. A letter is discarded once its row
// is durable there, so that none is lost when the process dies in between; it
// is then replayed again, and the queue recognises it while it remembers the
// message. The error is ErrBusy, an *Error of the queue, ctx's, or the
// store's.
func (k *Keeper) Replay(ctx context.Context, q Replay) (Replayed, error) {
	release, err := k.hold(q.Topic)
	if err != nil {
		return Replayed{}, err
	}
	defer release()
	run := &replay{
		k: k, q: &q, rebuilds: memo.New[*chunk.Form, *record.Rebuild](maxRebuilds), result: Replayed{Cursor: q.Cursor},
	}
	if len(q.IDs) > 0 {
		err = run.named(ctx)
	} else {
		err = run.all(ctx)
	}
	if !q.DryRun {
		k.count(q.Topic, &run.result)
	}
	return run.result, err
}

func (k *Keeper) count(t mq.Topic, result *Replayed) {
	k.rows.WithLabelValues(string(t.Tenant), t.Table, "replayed").Add(float64(result.Replayed))
	k.rows.WithLabelValues(string(t.Tenant), t.Table, "failed").Add(float64(result.Failed))
}
