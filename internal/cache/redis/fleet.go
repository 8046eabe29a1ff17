package redis

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// fleet is what this process knows of those that share the store.
//
// A process renews its lease while it has told the store of all its writes. Who
// finds one without a lease gives out nothing: it may have written, and nobody can
// know. And who could not tell the store of a write does not say that it was told
// before its own lease is over for everyone. So between a write that was told and
// a stale answer there is always a lease that ended first. In a cluster a lease is of
// a view, and counts for those only who have the same.
type fleet struct {
	// trusted is until when cached answers may be given out; nil for not at all.
	trusted atomic.Pointer[trust]

	// polling lets one poll run at a time.
	polling sync.Mutex
	polled  time.Time // guarded by polling, as is what follows
	// primaries of the cluster by their address.
	primaries map[string]primary
	asked     atomic.Bool

	mu    sync.Mutex // guards what follows
	clock clock
	// history is that of the server that answered last. The stay is what the others
	// know this process by there: it is another after each move, since the store lacks
	// what was told to another meanwhile.
	history, stay string
	// view are the servers that this process tells of its writes.
	view view
	// ends is when the lease that was asked for last is over for everyone, at the
	// latest; former the same for the lease in another history.
	ends, former time.Time
	grace        time.Time
	known        map[string]sighting // the others
	absent       []string
	apart        []string // those with another view
}

// sighting is when another process was seen last, and in which life of the fleet.
type sighting struct {
	life string
	at   time.Time
}

// trust is good until its end.
type trust struct {
	until time.Time
	epoch string
	// view are the servers that are believed: to another one others may not tell of
	// their writes.
	view view
}

// clock tells the server's time: never later than it is.
type clock struct {
	at     time.Time
	server int64 // ms; 0 is not known
}

func (c clock) now(at time.Time) int64 { return c.server + at.Sub(c.at).Milliseconds() }

// lateness is how much later than it was sent a renewal still counts, in times
// of the budget of an operation.
const lateness = 2

// slack is what clocks may differ in while a lease lasts.
const slack = 100 * time.Millisecond

// epoch returns under which name entries are good now; false when none are.
func (c *Cache) epoch(ctx context.Context) (string, bool) {
	if t := c.fleet.trusted.Load(); t != nil && time.Now().Before(t.until) {
		return t.epoch, true
	}
	// Before the first answer everyone waits for it; later whoever asks while
	// nobody keeps the lease does so.
	switch {
	case !c.fleet.asked.Load():
		c.fleet.polling.Lock()
	case c.running.Load() || !c.fleet.polling.TryLock():
		return "", false
	}
	if time.Since(c.fleet.polled) > c.o.Timing.Lease/16 {
		_ = c.pollLocked(ctx)
	}
	c.fleet.polling.Unlock()
	t := c.fleet.trusted.Load()
	if t == nil || !time.Now().Before(t.until) {
		return "", false
	}
	return t.epoch, true
}

// poll asks the store about the fleet and renews the lease. It is a write, and
// the probe of the breaker.
func (c *Cache) poll(ctx context.Context) error {
	c.fleet.polling.Lock()
	defer c.fleet.polling.Unlock()
	return c.pollLocked(ctx)
}

func (c *Cache) pollLocked(ctx context.Context) error {
	f := &c.fleet
	defer func() {
		f.polled = time.Now()
		f.asked.Store(true)
	}()
	if cluster, ok := c.client.(*goredis.ClusterClient); ok {
		if err := c.survey(ctx, cluster); err != nil {
			return err
		}
	}
	if !f.told() {
		// A renewal says how late it may be carried out, by the server's clock.
		if err := c.ask(ctx, "look", time.Now()); err != nil {
			return err
		}
	}
	now := time.Now()
	return c.ask(ctx, c.renewal(now), now)
}

// told reports whether the server's time is known.
func (f *fleet) told() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.clock.server > 0
}

// renewal decides whether to renew, and takes note of the lease before it is asked
// for: who adds to what is pending, and looks at its end then, sees it.
func (c *Cache) renewal(now time.Time) string {
	f := &c.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	if !c.pending.empty() {
		return "look"
	}
	f.ends = now.Add(lateness*c.o.OpTimeout + c.o.Timing.Lease + slack)
	return "renew"
}

// report is the store's answer about the fleet.
type report struct {
	now                  int64
	history, life, epoch string
	mine                 bool
	left                 time.Duration    // below 0: there are no others
	members              map[string]int64 // to one of the states below
}

// What another process may be.
const (
	inTouch int64 = iota
	silentOne
	elsewhere // it has another view
)

var errReport = errors.New("the server's answer cannot be read")

func readReport(answer any) (r report, err error) {
	fields, _ := answer.([]any)
	if len(fields) != 7 {
		return r, errReport
	}
	var ok [7]bool
	var mine, left int64
	var members []any
	r.now, ok[0] = fields[0].(int64)
	r.history, ok[1] = fields[1].(string)
	r.life, ok[2] = fields[2].(string)
	r.epoch, ok[3] = fields[3].(string)
	mine, ok[4] = fields[4].(int64)
	left, ok[5] = fields[5].(int64)
	members, ok[6] = fields[6].([]any)
	if slices.Contains(ok[:], false) {
		return r, errReport
	}
	r.mine, r.left, r.members = mine == 1, time.Duration(left)*time.Millisecond, map[string]int64{}
	for i := 0; i+1 < len(members); i += 2 {
		name, _ := members[i].(string)
		r.members[name], _ = members[i+1].(int64)
	}
	return r, nil
}

// ask has the script of the fleet run, as of the time that is given: it is too late
// a little after that.
func (c *Cache) ask(ctx context.Context, what string, sent time.Time) error {
	f := &c.fleet
	var deadline int64
	f.mu.Lock()
	history, stay := f.history, f.stay
	if f.clock.server > 0 {
		deadline = f.clock.now(sent.Add(lateness * c.o.OpTimeout))
	}
	f.mu.Unlock()
	var r report
	err := c.do(ctx, "fleet", what != "leave", func(ctx context.Context) error {
		answer, err := c.scripts.fleet.Run(ctx, c.client, []string{c.fleetKey()}, c.o.Member, stay,
			c.o.Timing.Lease.Milliseconds(), deadline, what, c.name(), c.o.Absence.Milliseconds(), history).Result()
		if err != nil {
			return err
		}
		r, err = readReport(answer)
		return err
	})
	if err != nil {
		f.mu.Lock()
		if strings.HasPrefix(err.Error(), "WHLATE") {
			f.clock = clock{} // or the server's clock was set
		}
		f.mu.Unlock()
		return fmt.Errorf("ask Redis who shares it: %w", err)
	}
	if r.history != history {
		what = "look"
	}
	c.learn(r, sent, what, stay)
	return nil
}

// learn takes a report, which was asked for in the stay.
func (c *Cache) learn(r report, sent time.Time, what, stay string) {
	f := &c.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	f.clock = clock{now, r.now}
	if r.history != f.history {
		f.history = r.history
		if c.o.Mode != Cluster {
			f.view = view{histories: []string{r.history}}
		}
		f.move()
	} else if stay != f.stay {
		return // it moved meanwhile
	}
	f.absent, f.apart = nil, nil
	for name, state := range r.members {
		switch state {
		case silentOne:
			f.absent = append(f.absent, name)
		case elsewhere:
			f.apart = append(f.apart, name)
		}
		f.known[name] = sighting{r.life, now}
	}
	for name, seen := range maps.Clone(f.known) {
		_, there := r.members[name]
		switch {
		case there:
		case seen.life == r.life || now.Sub(seen.at) > c.o.Absence:
			delete(f.known, name) // it left, or was given up
		default:
			f.absent = append(f.absent, name)
		}
	}
	slices.Sort(f.absent)
	slices.Sort(f.apart)
	if what == "renew" && !r.mine {
		f.grace = now.Add(c.o.Timing.Grace)
	}
	if len(f.absent)+len(f.apart) > 0 || f.grace.IsZero() || time.Now().Before(f.grace) {
		f.trusted.Store(nil)
		return
	}
	lasts := c.o.Timing.Lease
	if r.left >= 0 {
		lasts = min(lasts, r.left)
	}
	f.trusted.Store(&trust{until: sent.Add(lasts), epoch: r.epoch, view: f.view})
}

// move begins another stay. What was told before, or is from now on, others may not
// find before the lease of the stay that ends is over. Its caller holds mu.
func (f *fleet) move() {
	f.former, f.stay, f.grace = f.ends, newLife()+f.view.digest, time.Time{}
	f.trusted.Store(nil)
}

// at reports whether the history is that of a server by which this process trusts.
func (f *fleet) at(history string) bool {
	t := f.trusted.Load()
	return t != nil && t.view.has(history)
}

// quiet returns when nobody trusts this process any more, if it tells nothing.
func (f *fleet) quiet() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ends
}

// behind returns until when someone may trust a server of another history than those
// that were told of a write. Those that are not in view were told in passing, and this
// process goes on to tell others: what is kept there is from before, and forgotten.
func (f *fleet) behind(told []string) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.ContainsFunc(told, func(history string) bool { return !f.view.has(history) }) {
		f.move()
	}
	return f.former
}

// missing names who has no lease and who has another view, and how many others there
// are.
func (f *fleet) missing() (absent, apart []string, others int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.absent), slices.Clone(f.apart), len(f.known)
}
