package dedupe

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// inspectEvery is how often a place that is right is looked at.
const inspectEvery = 5 * time.Minute

// Verdict is what was found about the place of a store that its operator made.
type Verdict struct {
	// Fault is why it cannot be used.
	Fault error
	// Advice is what should be otherwise.
	Advice error
}

// Inspection says how a place is looked at.
type Inspection struct {
	// Place is what it is, "table", and Name its name.
	Place, Name string
	// Look looks at it. The error says that it got no answer, and leaves a place
	// that was right as it was.
	Look func(ctx context.Context) (Verdict, error)
	// Timeout bounds a look of Run, Recheck is the time between looks while
	// something is wrong.
	Timeout, Recheck time.Duration
	Logger           *slog.Logger
}

// Inspected is the place of a store: it is used behind a Guard, and not before it
// is known to be right.
type Inspected struct {
	*Guard
	o Inspection

	looking sync.Mutex // held by who looks
	mu      sync.Mutex
	wanted  bool
	verdict Verdict
	looked  time.Time // when it was looked at last
}

// NewInspected looks at nothing yet.
func NewInspected(o Inspection) *Inspected {
	return &Inspected{
		Guard: NewGuard(o.Timeout), o: o,
		verdict: Verdict{Fault: fmt.Errorf("%w: the %s %q has not been looked at yet", ErrUnavailable, o.Place, o.Name)},
	}
}

// Want looks at the place when it is wanted; see Store.
func (i *Inspected) Want(ctx context.Context, wanted bool) error {
	i.mu.Lock()
	i.wanted = wanted
	i.mu.Unlock()
	if !wanted {
		return nil
	}
	return i.Force(ctx, i.look)
}

// Run looks at the place until it is right, and now and then afterwards, and calls
// each at every turn. It returns when ctx ends.
func (i *Inspected) Run(ctx context.Context, each func()) {
	tick := time.NewTicker(i.o.Recheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			each()
			if i.due() {
				bounded, cancel := context.WithTimeout(ctx, i.o.Timeout)
				_ = i.look(bounded) // it is logged and remembered
				cancel()
			}
		}
	}
}

func (i *Inspected) due() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.wanted && (i.verdict != Verdict{} || time.Since(i.looked) >= inspectEvery)
}

// Use runs one call once the place is known to be right. It was looked at before, but
// for a call that comes very early or finds it wrong for long.
func (i *Inspected) Use(ctx context.Context, op func(context.Context) error) error {
	return i.Do(ctx, func(ctx context.Context) error {
		i.mu.Lock()
		fault, stale := i.verdict.Fault, time.Since(i.looked) >= i.o.Recheck
		i.mu.Unlock()
		if fault != nil && stale {
			fault = i.look(ctx)
		}
		if fault != nil {
			return fault
		}
		return op(ctx)
	})
}

// Usable reports whether the place can be used, Right whether it is as it should be.
func (i *Inspected) Usable() bool { return i.now().Fault == nil }

// Right reports whether everything about the place is as it should be.
func (i *Inspected) Right() bool { return i.now() == Verdict{} }

func (i *Inspected) now() Verdict {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.verdict
}

// Meter registers what is known of the place; right says what its being right means.
// reg may be nil.
func (i *Inspected) Meter(reg prometheus.Registerer, right string) {
	MeterOpen(reg, i.Usable)
	flag(reg, "wavehouse_dedupe_table_ok", "1 while "+right+".", i.Right)
}

// look looks at the place, and remembers what it found.
func (i *Inspected) look(ctx context.Context) error {
	i.looking.Lock()
	defer i.looking.Unlock()
	v, err := i.o.Look(ctx)
	switch {
	case err != nil && i.Usable():
		return nil
	case err != nil:
		v.Fault = fmt.Errorf("%w: look at the %s %q: %w", ErrUnavailable, i.o.Place, i.o.Name, err)
	case v.Fault != nil:
		v.Fault = fmt.Errorf("%w: %w", ErrUnavailable, v.Fault)
	}
	i.note(v)
	return v.Fault
}

// note remembers a verdict, and says so when it is another one.
func (i *Inspected) note(v Verdict) {
	i.mu.Lock()
	before := i.verdict
	i.verdict, i.looked = v, time.Now()
	i.mu.Unlock()
	log := i.o.Logger.With(i.o.Place, i.o.Name)
	switch {
	case v.Fault != nil:
		if before.Fault == nil || before.Fault.Error() != v.Fault.Error() {
			log.Error("the "+i.o.Place+" of seen ids cannot be used; it is looked at again", "error", v.Fault)
		}
	case v.Advice != nil:
		if before.Advice == nil || before.Advice.Error() != v.Advice.Error() {
			log.Warn("the "+i.o.Place+" of seen ids is not as it should be", "error", v.Advice)
		}
	case before != Verdict{}:
		log.Info("the " + i.o.Place + " of seen ids is right")
	}
}
