package embedded

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options of New. Only Dir is required.
type Options struct {
	// Dir holds everything the broker keeps; it is created when missing and
	// belongs to one process at a time.
	Dir string
	// Logger, nil for slog.Default.
	Logger *slog.Logger
	// Registerer takes the broker's metrics until Close; nil for none.
	Registerer prometheus.Registerer
	// Now paces attempts to open a queue; nil for time.Now.
	Now func() time.Time
	// AckWait is how long a delivery may stay unanswered; 0 for 30 s.
	AckWait time.Duration
	// DefaultBudget is the budget in bytes of a tenant for which SetBudget
	// was not called; 0 for 50 GiB.
	DefaultBudget int64
	// DuplicateWindow is how long a chunk's ID drops others; 0 for 90 s.
	DuplicateWindow time.Duration
	// PublishTimeout bounds the wait for a publish's answer when its context
	// does not; 0 for 10 s.
	PublishTimeout time.Duration
	// OpenInterval paces attempts to open a queue that failed to; 0 for 5 s.
	OpenInterval time.Duration
	// FreeSpace tells the free and total bytes of the volume of Dir; nil asks
	// the operating system.
	FreeSpace func() (free, total uint64, err error)
	// WatchInterval is how often FreeSpace is asked; 0 for 1 s.
	WatchInterval time.Duration

	// maxOpen is for tests; 0 for maxOpen.
	maxOpen int
	// lostAfter is when an answer is no longer awaited, resetEvery how often
	// at most the streams are then opened again.
	lostAfter, resetEvery time.Duration
	// repairEvery is how often at most they are for what can be repaired.
	repairEvery time.Duration
	// scrubEvery is how often files in use are looked at.
	scrubEvery time.Duration
	// syncEvery is how often acknowledgements are made to outlive the machine.
	syncEvery time.Duration
}

// duplicateWindow is over twice the longest lease of a claimed id, so that a
// retry that had to wait for the lease is known again, and below the shortest
// retention of ids, 2 minutes, so that the queue never drops a record that
// dedupe let through.
const duplicateWindow = 90 * time.Second

// Defaults and bounds.
const (
	defaultBudget = 50 << 30
	// deadLetterShare is the part of a budget that is for dead letters.
	deadLetterShare = 10
	// maxInFlight bounds the bodies of one tenant that are sent and not yet
	// answered; it stays below what the server queues per stream, 128 MiB.
	maxInFlight = 64 << 20
	// maxRecent bounds published bodies kept for consumers, over all tenants.
	maxRecent = 64 << 20
	// maxAhead bounds bodies read ahead of the worker, over all tenants: beyond
	// it each has one at most.
	maxAhead = 64 << 20
	// maxOpen bounds the chunks of one tenant that are delivered and not ended,
	// those handed back included; beyond it each table has one.
	maxOpen = 100_000
	// maxTenantRecent is one tenant's part of maxRecent.
	maxTenantRecent = 8 << 20
)

func (o Options) withDefaults() Options {
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.DefaultBudget == 0 {
		o.DefaultBudget = defaultBudget
	}
	if o.FreeSpace == nil {
		dir := o.Dir
		o.FreeSpace = func() (free, total uint64, err error) { return volumeSpace(dir) }
	}
	if o.maxOpen == 0 {
		o.maxOpen = maxOpen
	}
	setDuration(&o.AckWait, 30*time.Second)
	setDuration(&o.DuplicateWindow, duplicateWindow)
	setDuration(&o.PublishTimeout, 10*time.Second)
	setDuration(&o.OpenInterval, 5*time.Second)
	setDuration(&o.WatchInterval, time.Second)
	setDuration(&o.lostAfter, 30*time.Second)
	setDuration(&o.resetEvery, 30*time.Second)
	setDuration(&o.repairEvery, 2*time.Second)
	setDuration(&o.scrubEvery, 15*time.Second)
	setDuration(&o.syncEvery, 2*time.Second)
	return o
}

func setDuration(d *time.Duration, to time.Duration) {
	if *d <= 0 {
		*d = to
	}
}
