// Package letters shows dead letters, puts them back into the queue, as rows of
// the table as it is now, and discards them.
package letters

import (
	"cmp"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/wavehouse/wavehouse/internal/chunk"
	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// ErrBusy says that the table's dead letters are being replayed or discarded.
var ErrBusy = errors.New("the dead letters of the table are being replayed or discarded")

// Options are what a Keeper is made with.
type Options struct {
	Broker  ingest.Publisher
	Metrics prometheus.Registerer
	// MaxChunkBytes is the broker's; 0 is mq.MaxChunkBytes.
	MaxChunkBytes int
	// PublishTimeout bounds one publish; 0 is 10 seconds.
	PublishTimeout time.Duration
	// Now is the clock that ends a call; nil is time.Now.
	Now func() time.Time
}

// Keeper shows dead letters, puts them back into the queue and discards them. Of a
// table's letters one call disposes at a time, so that each leaves once. It
// owns no goroutine.
type Keeper struct {
	o      Options
	rows   *prometheus.CounterVec
	chunks *chunk.Opener

	mu sync.Mutex
	// busy has an entry per call under way.
	busy map[mq.Topic]struct{}
}

// NewKeeper builds a Keeper.
func NewKeeper(o Options) *Keeper {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.MaxChunkBytes = cmp.Or(o.MaxChunkBytes, mq.MaxChunkBytes)
	o.PublishTimeout = cmp.Or(o.PublishTimeout, ingest.DefaultPublishTimeout)
	return &Keeper{
		o: o, chunks: chunk.NewOpener(), busy: make(map[mq.Topic]struct{}),
		rows: promauto.With(o.Metrics).NewCounterVec(prometheus.CounterOpts{
			Name: "wavehouse_dlq_replay_rows_total",
			Help: "Dead letters that a replay put back into the queue (replayed), or left where they are (failed).",
		}, []string{"tenant", "table", "result"}),
	}
}

// hold keeps others from a table's letters until release is called. The error
// is ErrBusy when another does.
func (k *Keeper) hold(t mq.Topic) (release func(), err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, held := k.busy[t]; held {
		return nil, ErrBusy
	}
	k.busy[t] = struct{}{}
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.busy, t)
	}, nil
}

// Render shows a parked row as JSON; false when it cannot be read as a row.
func (k *Keeper) Render(l *mq.DeadLetter) ([]byte, bool) {
	form, encoded, err := k.chunks.OpenLetter(l)
	if err != nil {
		return nil, false
	}
	row, err := form.Layout.AppendObject(nil, encoded, nil, record.RenderOptions{})
	return row, err == nil
}

// Forget drops the metrics of a tenant that is gone for good.
func (k *Keeper) Forget(id tenant.ID) {
	k.rows.DeletePartialMatch(prometheus.Labels{"tenant": string(id)})
}
