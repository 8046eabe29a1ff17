package insert

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/dedupe"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/notice"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Source is the part of the broker that the worker needs.
type Source interface {
	mq.Consumer
	Park(ctx context.Context, letters ...mq.DeadLetter) error
}

// Inserter is a tenant's way to ClickHouse; *clickhouse.Pool is one.
type Inserter interface {
	Insert(ctx context.Context, r clickhouse.Request) error
	// Memory says what a table's memory of an INSERT is worth that was begun so
	// long ago, and Absent which rows a table does not have.
	Memory(ctx context.Context, table string, ago time.Duration) (clickhouse.Memory, error)
	Absent(ctx context.Context, s clickhouse.Sought) ([]int, error)
	// Name tells pools apart: inserters of one name share a backoff.
	Name() string
}

// Flush says when a batch is written, whichever comes first.
type Flush struct {
	// MaxRows is how many rows fill a batch; 0 is 50,000.
	MaxRows int
	// MaxBytes is how many bytes of rows do; 0 is 16 MiB.
	MaxBytes int64
	// MaxWait is how old a batch's first row may get; 0 is 1 s.
	MaxWait time.Duration
}

// TableSettings are what the worker needs to know of one table. They are asked
// for again with every batch, so a reload takes effect by itself.
type TableSettings struct {
	// Served says whether the tenant is served. Rows of one that is not are
	// parked: there is no ClickHouse to write them to.
	Served bool
	// Waits says that rows of a tenant that is not served wait all the same: it
	// may soon be again.
	Waits bool
	Flush Flush
	// Park says whether refused rows become dead letters (dlq.enabled). When
	// false they are kept and tried again for ever.
	Park bool
	// Retention is how long ids that are claimed before the INSERT are remembered,
	// 0 for ever.
	Retention time.Duration
	// MissingAsZero is what a record may lack, and CutTimes whether its times are
	// cut, when rows are rebuilt for a table that has changed.
	MissingAsZero, CutTimes bool
}

// WorkerOptions are what a Worker is made with.
type WorkerOptions struct {
	Broker Source
	// Pool is the tenant's way to ClickHouse; an error means there is none.
	Pool func(tenant.ID) (Inserter, error)
	// Table asks ClickHouse what a table is now; the error is ErrNoTable when it
	// is gone. nil never asks, and rows for other types are refused.
	Table func(ctx context.Context, t mq.Topic) (*record.Table, error)
	// Batches keeps what is being written over a restart; nil keeps nothing.
	Batches mq.Batches
	// Dedupe claims the ids of rows that were accepted without; nil claims none, and
	// such rows wait.
	Dedupe dedupe.Reserver
	// Settings are the table's settings now.
	Settings func(t tenant.ID, table string) TableSettings
	// Tell tells what was written and parked; nil tells nobody. It must not
	// block.
	Tell    func(notice.Notice)
	Logger  *slog.Logger
	Metrics prometheus.Registerer
	// Now is the clock of what is recorded; nil is time.Now.
	Now func() time.Time
	// MaxHeldPerTenant and MaxHeld bound the bytes of rows held; 0 is 64 MiB
	// and 256 MiB.
	MaxHeldPerTenant, MaxHeld int64
	// BackoffMin and BackoffMax bound the wait between attempts; 0 is 1 s and
	// 30 s.
	BackoffMin, BackoffMax time.Duration
	// InsertTimeout bounds one INSERT, whose outcome is then unknown; 0 is 2
	// minutes.
	InsertTimeout time.Duration
	// NoPoolGrace is how long a served tenant may be without a pool before its
	// rows are parked; 0 is 30 s.
	NoPoolGrace time.Duration
	// ResumePatience is how long a table waits for the chunks of what was being
	// written to it before: they are the first that come, and one that is lost must
	// not keep the others. 0 is 10 s.
	ResumePatience time.Duration
	// DrainTimeout is how long Run may go on after its context ended; 0 is 8 s.
	DrainTimeout time.Duration
}

const (
	defaultMaxRows      = 50_000
	defaultMaxBytes     = 16 << 20
	defaultMaxWait      = time.Second
	defaultHeld         = 256 << 20
	defaultHeldTenant   = 64 << 20
	defaultBackoffMin   = time.Second
	defaultBackoffMax   = 30 * time.Second
	defaultInsert       = 2 * time.Minute
	defaultNoPoolGrace  = 30 * time.Second
	defaultResume       = 10 * time.Second
	defaultDrainTimeout = 8 * time.Second
)

func (o WorkerOptions) withDefaults() WorkerOptions {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Tell == nil {
		o.Tell = func(notice.Notice) {}
	}
	o.MaxHeldPerTenant = cmp.Or(o.MaxHeldPerTenant, defaultHeldTenant)
	o.MaxHeld = cmp.Or(o.MaxHeld, defaultHeld)
	o.BackoffMin = cmp.Or(o.BackoffMin, defaultBackoffMin)
	o.BackoffMax = max(o.BackoffMin, cmp.Or(o.BackoffMax, defaultBackoffMax))
	o.InsertTimeout = cmp.Or(o.InsertTimeout, defaultInsert)
	o.NoPoolGrace = cmp.Or(o.NoPoolGrace, defaultNoPoolGrace)
	o.ResumePatience = cmp.Or(o.ResumePatience, defaultResume)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, defaultDrainTimeout)
	return o
}

func (f Flush) withDefaults() Flush {
	f.MaxRows = cmp.Or(f.MaxRows, defaultMaxRows)
	f.MaxBytes = cmp.Or(f.MaxBytes, defaultMaxBytes)
	f.MaxWait = cmp.Or(f.MaxWait, defaultMaxWait)
	return f
}
