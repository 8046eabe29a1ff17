package redis

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

const (
	// maxFlights is how many round trips of lookups are under way at once. Whoever
	// looks up meanwhile shares the next one: a round trip costs either side more than
	// a lookup in it.
	maxFlights = 2
	// maxShared bounds the lookups of one round trip.
	maxShared = 32
	// sharedBytes is how large the values of a round trip get before the rest of its
	// lookups waits for the next one.
	sharedBytes = 64 << 10
)

// lookup is one that a round trip carries.
type lookup struct {
	versions, entry string
	by              time.Time // when its budget ends

	// Written before answered is closed.
	answered chan struct{}
	found    found
	err      error
}

// found is the store's answer to a lookup.
type found struct {
	history string
	at      cache.Moment
	value   string // "" on a miss
}

// gather has lookups that meet share round trips.
type gather struct {
	mu    sync.Mutex
	lanes map[tenant.ID]*lane // only those with a flight
	// flying are the goroutines that carry what others wait for.
	flying sync.WaitGroup
}

// lane is of lookups that one server can be asked at once.
type lane struct {
	flights int
	waiting []*lookup
}

// find looks up, on its own or with others.
func (c *Cache) find(ctx context.Context, id tenant.ID, l *lookup) error {
	if c.o.Mode != Cluster {
		id = "" // one server has them all
	}
	g := &c.gather
	g.mu.Lock()
	at := g.lanes[id]
	if at == nil {
		at = &lane{}
		g.lanes[id] = at
	}
	if at.flights == maxFlights {
		l.answered = make(chan struct{})
		at.waiting = append(at.waiting, l)
		g.mu.Unlock()
		select {
		case <-l.answered:
			return l.err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	at.flights++
	g.mu.Unlock()
	_, err := c.fly(ctx, []*lookup{l})
	if others := g.next(id, nil); others != nil {
		g.flying.Go(func() { c.carry(id, others) })
	}
	return err
}

// next is what the next flight of a lane carries, first what the one before left.
// The flight ends with nil.
func (g *gather) next(id tenant.ID, left []*lookup) []*lookup {
	g.mu.Lock()
	defer g.mu.Unlock()
	at := g.lanes[id]
	n := min(len(at.waiting), maxShared-len(left))
	all := append(left, at.waiting[:n]...)
	clear(at.waiting[:n]) // or their answers would be held with it
	at.waiting = at.waiting[n:]
	if len(all) > 0 {
		return all
	}
	if at.flights--; at.flights == 0 {
		delete(g.lanes, id)
	}
	return nil
}

// carry flies until nobody waits.
func (c *Cache) carry(id tenant.ID, all []*lookup) {
	for all != nil {
		n, err := c.fly(context.Background(), all)
		if err != nil {
			n = len(all)
		}
		for _, l := range all[:n] {
			l.err = err
			close(l.answered)
		}
		all = c.gather.next(id, all[n:])
	}
}

// fly looks up in one round trip, within the budget of the first, and returns how
// many of them were answered: one at least.
func (c *Cache) fly(ctx context.Context, all []*lookup) (n int, err error) {
	err = c.until(ctx, all[0].by, "lookup", false, func(ctx context.Context) (err error) {
		n, _, err = c.inquire(ctx, all, "")
		return err
	})
	return n, err
}

// inquire runs the script. A lock, of its key and arguments, is for a single lookup.
func (c *Cache) inquire(ctx context.Context, all []*lookup, lockKey string, lock ...any) (n int, state string, err error) {
	keys := make([]string, 0, 2*len(all)+1)
	for _, l := range all {
		keys = append(keys, l.versions, l.entry)
	}
	args := append(make([]any, 0, 6), c.name(), versionsLife.Milliseconds(), sharedBytes)
	if lockKey != "" {
		keys, args = append(keys, lockKey), append(args, lock...)
	}
	answer, err := c.scripts.lookup.Run(ctx, c.client, keys, args...).Slice()
	if err != nil {
		return 0, "", err
	}
	n = (len(answer) - 2) / 3
	if n < 1 || n > len(all) || len(answer) != 2+3*n {
		return 0, "", errReport
	}
	history, ok := answer[0].(string)
	state, named := answer[1].(string)
	if !ok || !named {
		return 0, "", errReport
	}
	for i, l := range all[:n] {
		if l.found, err = readFound(answer[2+3*i:]); err != nil {
			return 0, "", err
		}
		l.found.history = history
	}
	return n, state, nil
}

func readFound(fields []any) (f found, err error) {
	life, ok := fields[0].(string)
	count, counted := fields[1].(string)
	f.value, _ = fields[2].(string)
	f.at.Life = life
	f.at.Count, err = strconv.ParseInt(count, 10, 64)
	if !ok || !counted || err != nil {
		return found{}, errReport
	}
	return f, nil
}
