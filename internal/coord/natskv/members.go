package natskv

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/wavehouse/wavehouse/internal/coord"
)

// maxMembers bounds a group.
const maxMembers = 64

// Members implements coord.Coordinator. It returns once this process is in. The
// name of a member is its place, so that a process that comes again soon after it
// left is the same.
func (c *Coordinator) Members(ctx context.Context, group string) (coord.Membership, error) {
	if err := ctx.Err(); err != nil {
		return coord.Membership{}, fmt.Errorf("join group %q: %w", group, err)
	}
	ctx, done, err := c.turns.Begin(ctx)
	if err != nil {
		return coord.Membership{}, err
	}
	g := &membership{c: c, prefix: "lease." + group + ".", mine: c.mine(), seen: map[string]sight{}}
	if err := g.join(ctx); err != nil {
		done()
		return coord.Membership{}, fmt.Errorf("join group %q: %w", group, err)
	}
	c.holds.WithLabelValues(group).Inc()
	changes := make(chan []string, 1)
	members := slices.Clone(g.members)
	go func() {
		defer done()
		defer close(changes)
		defer c.holds.WithLabelValues(group).Dec()
		g.stay(changes)
		g.held.resign()
	}()
	return coord.Membership{Self: g.self, Members: members, Changes: changes}, nil
}

// membership is this process's place in a group.
type membership struct {
	c       *Coordinator
	prefix  string
	self    string
	mine    record
	held    *held
	members []string
	seen    map[string]sight
}

// join takes the lowest place that is free.
func (g *membership) join(ctx context.Context) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		wait, err := g.try(ctx)
		if g.held != nil {
			return nil
		}
		if err != nil {
			g.c.failed(err)
		}
		if err := g.c.sleep(ctx, wait); err != nil {
			return err
		}
	}
}

func (g *membership) try(ctx context.Context) (time.Duration, error) {
	entries, err := g.list(ctx)
	if err != nil {
		return retryEvery, err
	}
	g.look(entries)
	at := map[string]uint64{}
	for _, e := range entries {
		at[e.Key] = e.Revision
	}
	for j := range maxMembers {
		name := "m" + strconv.Itoa(j)
		if slices.Contains(g.members, name) {
			continue
		}
		l := g.c.newLease(g.prefix+name, g.mine)
		h, err := l.claim(ctx, at[l.key])
		if err != nil {
			return retryEvery, err
		}
		g.self, g.held = name, h
		go h.keep()
		g.look(entries)
		return 0, nil
	}
	return renewEvery, fmt.Errorf("all %d places of %s are taken", maxMembers, g.prefix)
}

// stay tells changes until the membership ends.
func (g *membership) stay(changes chan []string) {
	for g.c.sleep(g.held, renewEvery) == nil {
		before := g.members
		entries, err := g.list(g.held)
		if err != nil {
			if g.held.Err() == nil {
				g.c.failed(err)
			}
			continue
		}
		if g.look(entries); slices.Equal(before, g.members) {
			continue
		}
		select {
		case <-changes: // nobody took the one before
		default:
		}
		changes <- slices.Clone(g.members)
	}
}

// look notes who is there: places that changed lately, and this process's own.
func (g *membership) look(entries []Entry) {
	now := g.c.o.Clock.Now().Mono
	var members []string
	for _, e := range entries {
		if g.seen[e.Key].revision != e.Revision {
			g.seen[e.Key] = sight{e.Revision, now}
		}
		// What this process asked for in vain, its answer being lost, is nobody's.
		name, of := e.Key[len(g.prefix):], read(e)
		if name != g.self && of.Holder != "" && of != g.mine && now-g.seen[e.Key].at < takeAfter {
			members = append(members, name)
		}
	}
	if g.self != "" {
		members = append(members, g.self)
	}
	slices.Sort(members)
	g.members = members
}

func (g *membership) list(ctx context.Context) ([]Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return g.c.o.Bucket.List(ctx, g.prefix)
}
