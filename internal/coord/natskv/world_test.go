package natskv

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// world is a bucket, and processes that reach it through a bad network and have
// clocks of their own. It lives in a bubble of testing/synctest, whose clock is the
// true time.
type world struct {
	random   *lockedRandom
	mu       sync.Mutex
	revision uint64
	log      []change // of all keys, the newest last
}

type change struct {
	Entry
	at time.Time
}

type lockedRandom struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (l *lockedRandom) chance(p float64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.Float64() < p
}

func (l *lockedRandom) upTo(d time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Duration(l.r.Int64N(int64(d) + 1))
}

func newWorld(seed uint64) *world {
	return &world{random: &lockedRandom{r: rand.New(rand.NewPCG(seed, 1))}}
}

// as returns the newest entries of a moment ago.
func (w *world) as(ago time.Duration) map[string]Entry {
	w.mu.Lock()
	defer w.mu.Unlock()
	all, then := map[string]Entry{}, time.Now().Add(-ago)
	for _, c := range w.log {
		if !c.at.After(then) {
			all[c.Key] = c.Entry
		}
	}
	return all
}

func (w *world) update(key string, value []byte, revision uint64) (uint64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := uint64(0)
	for _, c := range w.log {
		if c.Key == key {
			at = c.Revision
		}
	}
	if at != revision {
		return 0, fmt.Errorf("%w: %d, not %d", ErrRevision, at, revision)
	}
	w.revision++
	w.log = append(w.log, change{Entry{key, slices.Clone(value), w.revision}, time.Now()})
	return w.revision, nil
}

// process is one process's clock and way to the bucket.
type process struct {
	*world
	// faults is how likely a request meets one, in thousandths.
	faults atomic.Int64

	state   sync.Mutex
	awake   chan struct{} // closed while it runs
	cut     bool
	stood   time.Duration // that its monotonic clock missed
	wallOff time.Duration

	// pace is how fast its clocks run.
	pace float64
}

func (w *world) process() *process {
	p := &process{world: w, awake: make(chan struct{}), pace: 1}
	close(p.awake)
	return p
}

var errCut = errors.New("cut off")

// running waits until the process runs.
func (p *process) running() {
	for {
		p.state.Lock()
		awake := p.awake
		p.state.Unlock()
		<-awake
		p.state.Lock()
		same := awake == p.awake
		p.state.Unlock()
		if same {
			return
		}
	}
}

// stop pauses the process for d. Suspended, its monotonic clock stands, and the
// wall clock is set right at the end.
func (p *process) stop(d time.Duration, suspended bool) {
	p.state.Lock()
	p.awake = make(chan struct{})
	awake := p.awake
	p.state.Unlock()
	time.Sleep(d)
	p.state.Lock()
	if suspended {
		p.stood += d
	}
	p.state.Unlock()
	close(awake)
}

func (p *process) setWall(off time.Duration) {
	p.state.Lock()
	defer p.state.Unlock()
	p.wallOff = off
}

func (p *process) reach(cut bool) {
	p.state.Lock()
	defer p.state.Unlock()
	p.cut = cut
}

// Now implements Clock.
func (p *process) Now() Instant {
	p.running()
	p.state.Lock()
	defer p.state.Unlock()
	now := time.Since(epoch)
	return Instant{Mono: p.paced(now - p.stood), Wall: epoch.Add(p.paced(now) + p.wallOff).Round(0)}
}

// epoch is when all clocks showed the same: a bubble's beginning.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func (p *process) paced(d time.Duration) time.Duration { return time.Duration(float64(d) * p.pace) }

// After implements Clock. A process that stands does not see that it fired.
func (p *process) After(d time.Duration) <-chan time.Time {
	fired := make(chan time.Time, 1)
	go func() {
		time.Sleep(time.Duration(math.Ceil(float64(d)/p.pace)) + 1) // never too early: whoever waits for the rest would do so for ever
		p.running()
		fired <- time.Now()
	}()
	return fired
}

func (p *process) fault() float64 { return float64(p.faults.Load()) / 1000 }

// travel is a way to the bucket or back.
func (p *process) travel(ctx context.Context) error {
	p.state.Lock()
	cut := p.cut
	p.state.Unlock()
	switch {
	case cut || p.random.chance(p.fault()):
		<-ctx.Done()
		return errCut
	case p.random.chance(p.fault()):
		return errCut // told at once
	}
	time.Sleep(p.random.upTo(20 * time.Millisecond))
	return nil
}

// back is the way of an answer: whoever has left does not hear it.
func (p *process) back(ctx context.Context) error {
	err := p.travel(ctx)
	p.running()
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// ago is how old what a replica answers is.
func (p *process) ago() time.Duration {
	if p.random.chance(p.fault()) {
		return p.random.upTo(30 * time.Second)
	}
	return 0
}

// Get implements Bucket.
func (p *process) Get(ctx context.Context, key string) (Entry, bool, error) {
	p.running()
	if err := p.travel(ctx); err != nil {
		return Entry{}, false, err
	}
	e, ok := p.as(p.ago())[key]
	return e, ok, p.back(ctx)
}

// List implements Bucket.
func (p *process) List(ctx context.Context, prefix string) ([]Entry, error) {
	p.running()
	if err := p.travel(ctx); err != nil {
		return nil, err
	}
	all := p.as(p.ago())
	var listed []Entry
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(key, prefix) {
			listed = append(listed, all[key])
		}
	}
	return listed, p.back(ctx)
}

// Update implements Bucket. A request may come to the bucket long after whoever
// sent it gave up.
func (p *process) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	p.running()
	if err := p.travel(ctx); err != nil {
		return 0, err
	}
	if p.random.chance(p.fault() / 2) {
		late := p.random.upTo(40 * time.Second)
		go func() {
			time.Sleep(late)
			_, _ = p.update(key, value, revision)
		}()
		<-ctx.Done()
		return 0, errCut
	}
	next, err := p.update(key, value, revision)
	if lost := p.back(ctx); lost != nil {
		return 0, lost
	}
	return next, err
}
