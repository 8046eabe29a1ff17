// Package letters disposes of dead letters: it puts them back into the queue, as
// rows of the table as it is now, and keeps two callers from the same ones.
package letters

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/schema"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Bounds of a replay.
const (
	// MaxReplay bounds the letters that one Replay looks at.
	MaxReplay = 100_000
	// MaxReplayFailures bounds the failures that it names; they are all counted.
	MaxReplayFailures = 1000
	// replayPage is how many letters are read at a time.
	replayPage = 1000
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

// ErrBusy says that the table's dead letters are being replayed or discarded.
var ErrBusy = errors.New("the dead letters of the table are being replayed or discarded")

// Options are what a Replayer is made with.
type Options struct {
	Broker  ingest.Publisher
	Metrics prometheus.Registerer
	// PublishTimeout bounds one publish; 0 is 10 seconds.
	PublishTimeout time.Duration
	// Now is the clock that ends a call; nil is time.Now.
	Now func() time.Time
}

// Replayer puts dead letters back into the queue, and discards them. Of a
// table's letters one call disposes at a time, so that each leaves once. It
// owns no goroutine.
type Replayer struct {
	o    Options
	rows *prometheus.CounterVec

	mu sync.Mutex
	// busy has an entry per call under way.
	busy map[mq.Topic]struct{}
}

// NewReplayer builds a Replayer.
func NewReplayer(o Options) *Replayer {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.PublishTimeout = cmp.Or(o.PublishTimeout, ingest.DefaultPublishTimeout)
	r := &Replayer{
		o: o, busy: make(map[mq.Topic]struct{}),
		rows: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "wavehouse_dlq_replay_rows_total",
			Help: "Dead letters that a replay put back into the queue (replayed), or left where they are (failed).",
		}, []string{"tenant", "table", "result"}),
	}
	if o.Metrics != nil {
		o.Metrics.MustRegister(r.rows)
	}
	return r
}

// Replay says which letters go back, and how.
type Replay struct {
	Topic mq.Topic
	Store mq.DeadLetterStore
	// Table is the table as it is now: rows that do not fit it stay.
	Table         *schema.Table
	MissingAsZero bool
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

// Hold keeps others from a table's letters until release is called. The error
// is ErrBusy when another does.
func (r *Replayer) Hold(t mq.Topic) (release func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, held := r.busy[t]; held {
		return nil, ErrBusy
	}
	r.busy[t] = struct{}{}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.busy, t)
	}, nil
}

// Replay puts letters back into the queue. A letter is discarded once its row
// is durable there, so that none is lost when the process dies in between; it
// is then replayed again, and the queue recognises it while it remembers the
// message. The error is ErrBusy, an *Error of the queue, ctx's, or the
// store's.
func (r *Replayer) Replay(ctx context.Context, q Replay) (Replayed, error) {
	release, err := r.Hold(q.Topic)
	if err != nil {
		return Replayed{}, err
	}
	defer release()
	run := &replay{r: r, q: &q, forms: newForms(&q), result: Replayed{Cursor: q.Cursor}}
	if len(q.IDs) > 0 {
		err = run.named(ctx)
	} else {
		err = run.all(ctx)
	}
	if !q.DryRun {
		r.count(q.Topic, &run.result)
	}
	return run.result, err
}

func (r *Replayer) count(t mq.Topic, result *Replayed) {
	r.rows.WithLabelValues(string(t.Tenant), t.Table, "replayed").Add(float64(result.Replayed))
	r.rows.WithLabelValues(string(t.Tenant), t.Table, "failed").Add(float64(result.Failed))
}

// Forget drops the metrics of a tenant that is gone for good.
func (r *Replayer) Forget(id tenant.ID) {
	r.rows.DeletePartialMatch(prometheus.Labels{"tenant": string(id)})
}
