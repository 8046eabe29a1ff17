// Package limit holds a tenant to the rates that its settings name: rows and
// bytes of ingest, queries by the second and at once, and bytes that queries read in
// an hour.
//
// A rate is a token bucket. It fills at the rate up to its burst, and a request
// is admitted while there is at least one token, whatever the request's size: a
// request larger than what is there leaves the tenant in debt, which is paid off
// at the rate before the next one is admitted. So no request is too large to be
// ever admitted, the average holds, and what comes at once is at most the burst
// and one request.
//
// What a query reads is known when it has run: one is admitted while the hour before
// it has something left, whatever it goes on to read.
//
// A tenant costs a few words while it has a limit and nothing while it has none.
// There are no goroutines and no timers: buckets are filled when they are asked.
package limit

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Names of the limits.
const (
	RowsPerSecond    = "rows_per_second"
	BytesPerSecond   = "bytes_per_second"
	Concurrent       = "concurrent"
	QueriesPerSecond = "per_second"
	ReadBytesPerHour = "read_bytes_per_hour"
)

var names = []string{RowsPerSecond, BytesPerSecond, Concurrent, QueriesPerSecond, ReadBytesPerHour}

// Config is one tenant's limits; zero is no limit.
type Config struct {
	RowsPerSecond  int
	BytesPerSecond int64
	// Burst is how many rows may come at once; zero is one second's worth. The
	// bucket of bytes holds the same time's worth as that of rows.
	Burst int

	QueriesPerSecond  int // one second's worth may come at once
	ConcurrentQueries int
	ReadBytesPerHour  int64 // by queries, in any hour
}

// Exceeded is a request that is over a limit.
type Exceeded struct {
	Limit string        // the name of the limit
	Key   string        // where config.json sets it
	Value int64         // what it is set to
	Per   time.Duration // the time that Value is for; 0 is for one of what goes on at once
	Wait  time.Duration // after which another attempt makes sense, more than 0
}

// Error names the limit.
func (e *Exceeded) Error() string {
	return fmt.Sprintf("the tenant's limit %s (%d) is exceeded", e.Key, e.Value)
}

// Options of Limits. The zero value works.
type Options struct {
	Now     func() time.Time      // nil is time.Now
	Metrics prometheus.Registerer // nil registers nothing
}

// Limits holds the limits of all tenants. Its methods may be called by many
// goroutines.
type Limits struct {
	now     func() time.Time
	refused *prometheus.CounterVec
	// reconciling lets one Reconcile at a time; requests do not take it.
	reconciling sync.Mutex
	// tenants has those with a limit. The map is replaced whole, never changed.
	tenants atomic.Pointer[map[tenant.ID]*limited]
}

// New returns Limits without any.
func New(o Options) *Limits {
	l := &Limits{now: o.Now, refused: promauto.With(o.Metrics).NewCounterVec(prometheus.CounterOpts{
		Name: "wavehouse_limit_refused_total",
		Help: "Requests refused by a limit of their tenant.",
	}, []string{"tenant", "limit"})}
	if l.now == nil {
		l.now = time.Now
	}
	l.tenants.Store(&map[tenant.ID]*limited{})
	return l
}

// Reconcile makes configs the limits that hold, one for each served tenant. A
// limit that changes keeps what was used of it, debt included; one that is new
// begins unused. A tenant that is left out has no limit, and what it used is
// forgotten.
func (l *Limits) Reconcile(configs map[tenant.ID]Config) {
	l.reconciling.Lock()
	defer l.reconciling.Unlock()
	before, after := *l.tenants.Load(), map[tenant.ID]*limited{}
	for id, c := range configs {
		if c.none() {
			continue
		}
		t := before[id]
		if t == nil {
			t = &limited{}
		}
		t.configure(c, l.now())
		after[id] = t
	}
	l.tenants.Store(&after)
	for id := range before {
		if after[id] == nil {
			for _, name := range names {
				l.refused.DeleteLabelValues(id.String(), name)
			}
		}
	}
}

func (c Config) none() bool {
	return c.RowsPerSecond == 0 && c.BytesPerSecond == 0 && c.QueriesPerSecond == 0 && c.ConcurrentQueries == 0 && c.ReadBytesPerHour == 0
}

// Ingest takes rows and bytes from the tenant's buckets, or from neither and
// says which limit is in the way. With zero of both it takes nothing: it tells
// before a body is read whether the tenant is in debt.
func (l *Limits) Ingest(id tenant.ID, rows int, bytes int64) *Exceeded {
	t := (*l.tenants.Load())[id]
	if t == nil {
		return nil
	}
	return l.count(id, t.ingest(rows, bytes, l.now()))
}

// Query admits one query. release must be called when the query has ended, and
// may be called again; it is nil when the query is not admitted.
func (l *Limits) Query(id tenant.ID) (release func(), exceeded *Exceeded) {
	t := (*l.tenants.Load())[id]
	if t == nil {
		return func() {}, nil
	}
	release, exceeded = t.query(l.now())
	return release, l.count(id, exceeded)
}

// Read counts bytes that a query has read.
func (l *Limits) Read(id tenant.ID, bytes int64) {
	if t := (*l.tenants.Load())[id]; t != nil {
		t.read(bytes, l.now())
	}
}

// Usage is how much of one limit is used.
type Usage struct {
	Limit string
	Key   string
	Value int64
	// Per is the time that Value is for; 0 is for a limit of what goes on at once.
	Per time.Duration
	// Used is what counts now. Of a rate it is what of Burst is not there: it may be
	// more, which is debt.
	Used, Burst int64
	// Resets is when nothing of it would count any more; zero when nothing does, or
	// when that cannot be known.
	Resets time.Time
	// Refused is when a request was refused for it last; zero is never.
	Refused time.Time
}

// Usage lists the tenant's limits, those of ingest first.
func (l *Limits) Usage(id tenant.ID) []Usage {
	t := (*l.tenants.Load())[id]
	if t == nil {
		return nil
	}
	return t.usage(l.now())
}

func (l *Limits) count(id tenant.ID, exceeded *Exceeded) *Exceeded {
	if exceeded != nil {
		l.refused.WithLabelValues(id.String(), exceeded.Limit).Inc()
	}
	return exceeded
}
