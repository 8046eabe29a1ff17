// Package redis is the cache in a store that processes share: Redis, Valkey or
// what speaks as they do, alone, as a cluster or behind sentinels.
//
// Each tenant has versions under its hash tag: a name, a count of invalidations
// and the count at which each table was written last. An entry carries the name and
// the count from before its question was asked, and is given out while the name is
// the same and none of its tables has a later count. Versions that are lost get
// another name, so that nothing from before them is given out. They are bound to the
// history of the server that holds them, which every script asks for: what a
// failover or a restart brought back is of another history. See also fleet.
package redis

import (
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

const (
	// MaxValue is the largest encoded value that is kept, in bytes.
	MaxValue = 1 << 20
	// maxTables bounds the tables of one value.
	maxTables = 1024
	// maxMarks bounds the tables of a tenant whose writes are told apart; beyond,
	// its versions begin anew.
	maxMarks = 4096
	// versionsLife is how long versions are kept that nothing is filled under: no
	// value lives as long.
	versionsLife = 2 * cache.MaxTTL
	// batch is how many tenants one round trip invalidates.
	batch = 1000
	// freshEnough is how old a question that runs may be for others to join it
	// when nobody can say what other processes wrote meanwhile.
	freshEnough = time.Second
)

var (
	_ cache.Cache  = (*Cache)(nil)
	_ cache.Leader = (*Cache)(nil)
)

// Cache implements cache.Cache and cache.Leader.
type Cache struct {
	o        Options
	client   goredis.UniversalClient
	scripts  scripts
	encoders cache.Encoders
	breaker  breaker
	gather   gather
	pending  *pending
	fleet    fleet
	// versions are what this process alone wrote.
	versions *cache.Versions
	metrics  *metrics

	life    string // of this process
	names   atomic.Uint64
	running atomic.Bool
}

//go:embed scripts/history.lua
var historyScript string

//go:embed scripts/lookup.lua
var lookupScript string

//go:embed scripts/current.lua
var currentScript string

//go:embed scripts/fill.lua
var fillScript string

//go:embed scripts/invalidate.lua
var invalidateScript string

//go:embed scripts/fleet.lua
var fleetScript string

//go:embed scripts/lock.lua
var lockScript string

// scripts are those of the folder beside this file, each behind history.lua, which is
// one of them, too.
type scripts struct{ history, lookup, current, fill, invalidate, fleet, lock *goredis.Script }

func newScripts() scripts {
	script := func(body string) *goredis.Script { return goredis.NewScript(historyScript + body) }
	return scripts{
		script("return history"), script(lookupScript), script(currentScript), script(fillScript), script(invalidateScript), script(fleetScript),
		goredis.NewScript(lockScript),
	}
}

// New makes a cache. It does not wait for the server, and no server that is
// missing or refuses is an error: see Status. Close ends its connections.
func New(o Options) (*Cache, error) {
	o.complete()
	client, err := o.client()
	if err != nil {
		return nil, err
	}
	c := &Cache{
		o: o, client: client, scripts: newScripts(), pending: newPending(), versions: cache.NewVersions(),
		breaker: breaker{logger: o.Logger}, life: newLife(),
	}
	c.fleet.known, c.gather.lanes = map[string]sighting{}, map[tenant.ID]*lane{}
	c.metrics = newMetrics(o.Metrics, c)
	return c, nil
}

func newLife() string {
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails
	return hex.EncodeToString(random)
}

// name returns one that was never used.
func (c *Cache) name() string { return c.life + strconv.FormatUint(c.names.Add(1), 36) }

func (c *Cache) tag(id tenant.ID) string         { return "{" + c.o.Prefix + ":" + string(id) + "}" }
func (c *Cache) versionsKey(id tenant.ID) string { return c.tag(id) + "v" }
func (c *Cache) fleetKey() string                { return c.o.Prefix + ":fleet" }

func (c *Cache) entryKeys(key cache.Key, epoch string) (entry, lock string) {
	sum := base64.RawURLEncoding.EncodeToString(key.Sum[:])
	tag := c.tag(key.Tenant)
	return tag + "e:" + epoch + ":" + sum, tag + "l:" + sum
}

// do runs an operation within its budget, past the breaker unless it is a probe.
func (c *Cache) do(ctx context.Context, name string, probe bool, f func(context.Context) error) error {
	return c.until(ctx, time.Now().Add(c.o.OpTimeout), name, probe, f)
}

// until is do with the end of a budget that began before.
func (c *Cache) until(ctx context.Context, by time.Time, name string, probe bool, f func(context.Context) error) error {
	if !probe && c.breaker.open.Load() {
		return errOpen
	}
	began := time.Now()
	within, cancel := context.WithDeadline(ctx, by)
	err := f(within)
	cancel()
	c.metrics.observe(name, time.Since(began), err)
	switch {
	case err == nil:
		c.breaker.worked(probe)
	case ctx.Err() == nil:
		c.breaker.failed(err, time.Now())
	}
	return err
}

// Lookup implements cache.Cache.
func (c *Cache) Lookup(ctx context.Context, key cache.Key) (*cache.Value, cache.Ticket) {
	value, ticket, _ := c.look(ctx, key)
	return value, ticket
}

// States of the lock of a question.
const (
	lockFree  = "free"
	lockTaken = "taken"
	lockHeld  = "held"
)

// look looks a key up; with lock, its arguments, for someone who is about to ask.
func (c *Cache) look(ctx context.Context, key cache.Key, lock ...any) (*cache.Value, cache.Ticket, string) {
	ticket := cache.Ticket{Key: key, Store: cache.Moment{Own: c.versions.Now()}}
	epoch, ok := c.epoch(ctx)
	if !ok {
		ticket.Taken = time.Now()
		return nil, ticket, lockFree
	}
	var lockKey string
	l, state := &lookup{versions: c.versionsKey(key.Tenant), by: time.Now().Add(c.o.OpTimeout)}, lockFree
	l.entry, lockKey = c.entryKeys(key, epoch)
	var err error
	if len(lock) == 0 {
		err = c.find(ctx, key.Tenant, l)
	} else {
		err = c.do(ctx, "lookup", false, func(ctx context.Context) (err error) {
			_, state, err = c.inquire(ctx, []*lookup{l}, lockKey, lock...)
			return err
		})
	}
	// Another server than those that everyone who shares it tells is not believed.
	if err != nil || !c.fleet.at(l.found.history) {
		ticket.Taken = time.Now()
		return nil, ticket, lockFree
	}
	ticket.Store.Life, ticket.Store.Count = l.found.at.Life, l.found.at.Count
	ticket.Store.Epoch = epoch
	if l.found.value == "" {
		return nil, ticket, state
	}
	value, err := c.encoders.Unpack([]byte(l.found.value))
	if err != nil {
		// Of another version of this program, which may be running beside this one.
		c.metrics.unread.Inc()
		return nil, ticket, state
	}
	if c.pending.blocks(key.Tenant, value.Tables) {
		return nil, ticket, lockFree
	}
	return value, ticket, state
}

// Current implements cache.Cache. While the store is out of reach it speaks for
// this process's writes only, and of questions that are not old.
func (c *Cache) Current(ctx context.Context, ticket cache.Ticket, tables []string) bool {
	id := ticket.Key.Tenant
	if !c.versions.Current(id, ticket.Store.Own, tables) {
		return false
	}
	if ticket.Store.Life == "" {
		return time.Since(ticket.Taken) < freshEnough
	}
	if c.pending.blocks(id, tables) {
		return false
	}
	if _, ok := c.epoch(ctx); !ok || len(tables) > maxTables {
		return false
	}
	args := append([]any{ticket.Store.Life, ticket.Store.Count}, fields(tables)...)
	var history string // "" for no
	err := c.do(ctx, "current", false, func(ctx context.Context) (err error) {
		history, err = c.scripts.current.Run(ctx, c.client, []string{c.versionsKey(id)}, args...).Text()
		return err
	})
	return err == nil && c.fleet.at(history)
}

// fields are the names of tables among the versions.
func fields(tables []string) []any {
	names := make([]any, len(tables))
	for i, table := range tables {
		names[i] = "t:" + table
	}
	return names
}

// Fill implements cache.Cache.
func (c *Cache) Fill(ctx context.Context, ticket cache.Ticket, value *cache.Value, ttl time.Duration) {
	id := ticket.Key.Tenant
	if ticket.Store.Life == "" || ttl < time.Millisecond || len(value.Tables) > maxTables || c.pending.blocks(id, value.Tables) {
		return
	}
	data, err := c.encoders.Pack(value)
	if err != nil || len(data) > MaxValue {
		c.metrics.large.Inc()
		return
	}
	entry, _ := c.entryKeys(ticket.Key, ticket.Store.Epoch)
	args := append([]any{
		ticket.Store.Life, ticket.Store.Count, min(ttl, cache.MaxTTL).Milliseconds(), versionsLife.Milliseconds(), data,
	}, fields(value.Tables)...)
	_ = c.do(ctx, "fill", false, func(ctx context.Context) error {
		return c.scripts.fill.Run(ctx, c.client, []string{c.versionsKey(id), entry}, args...).Err()
	})
}

// Invalidate implements cache.Cache.
func (c *Cache) Invalidate(ctx context.Context, ids []tenant.ID, tables []string) error {
	if len(tables) == 0 {
		return nil
	}
	return c.tell(ctx, ids, tables)
}

// InvalidateTenants implements cache.Cache.
func (c *Cache) InvalidateTenants(ctx context.Context, ids []tenant.ID) error {
	return c.tell(ctx, ids, nil)
}

// tell tells the store of a write, and waits until nobody gives out what is older:
// because the store knows, or because nobody trusts this process any more.
func (c *Cache) tell(ctx context.Context, ids []tenant.ID, tables []string) error {
	if len(ids) == 0 {
		return nil
	}
	c.versions.Mark(ids, tables)
	until, err := c.deliver(ctx, ids, tables)
	if err != nil {
		landed := c.pending.add(ids, tables)
		if wait(ctx, c.fleet.quiet(), landed) {
			err, until = nil, c.fleet.behind(nil)
		}
	}
	if err != nil {
		return fmt.Errorf("tell Redis of a write: %w", err)
	}
	wait(ctx, until, nil)
	return nil
}

// wait waits until a time, and reports whether the channel was closed before.
func wait(ctx context.Context, until time.Time, landed <-chan struct{}) bool {
	left := time.Until(until)
	if left <= 0 {
		return false
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-landed:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// deliver sends an invalidation, in one round trip for each batch of tenants, and
// returns until when someone may trust a server that was not told.
func (c *Cache) deliver(ctx context.Context, ids []tenant.ID, tables []string) (until time.Time, err error) {
	args := append([]any{maxMarks}, fields(tables)...)
	for len(ids) > 0 && err == nil {
		n := min(len(ids), batch)
		keys := make([]string, n)
		for i, id := range ids[:n] {
			keys[i] = c.versionsKey(id)
		}
		ids = ids[n:]
		var told []string
		err = c.do(ctx, "invalidate", false, func(ctx context.Context) (err error) {
			if c.o.Mode == Cluster {
				told, err = c.scatter(ctx, keys, args)
				return err
			}
			history, err := c.scripts.invalidate.Run(ctx, c.client, keys, args...).Text()
			told = []string{history}
			return err
		})
		if err == nil {
			until = c.fleet.behind(told)
		}
	}
	return until, err
}

// scatter sends each key to its node, one round trip for each, and returns their
// histories.
func (c *Cache) scatter(ctx context.Context, keys []string, args []any) (told []string, err error) {
	script := c.scripts.invalidate
	answers := make([]*goredis.Cmd, len(keys))
	_, err = c.client.Pipelined(ctx, func(p goredis.Pipeliner) error {
		for i, key := range keys {
			answers[i] = script.EvalSha(ctx, p, []string{key}, args...)
		}
		return nil
	})
	var unknown []int
	for i, answer := range answers {
		if err := answer.Err(); goredis.HasErrorPrefix(err, "NOSCRIPT") {
			unknown = append(unknown, i)
		} else if err != nil {
			return nil, err
		}
	}
	if len(unknown) > 0 {
		_, err = c.client.Pipelined(ctx, func(p goredis.Pipeliner) error {
			for _, i := range unknown {
				answers[i] = script.Eval(ctx, p, []string{keys[i]}, args...)
			}
			return nil
		})
	}
	for _, answer := range answers {
		history, _ := answer.Text() // "" is in no view
		told = append(told, history)
	}
	return told, err
}

// Run implements cache.Cache: it keeps this process's lease, delivers what is
// pending and probes a server that failed.
func (c *Cache) Run(ctx context.Context) error {
	c.running.Store(true)
	defer c.running.Store(false)
	every := time.NewTicker(c.o.Timing.Lease / 4)
	defer every.Stop()
	for {
		if err := c.poll(ctx); err == nil && c.redeliver(ctx) {
			_ = c.poll(ctx) // the others wait for the lease
		}
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
	}
}

// redeliver delivers what is pending and reports whether it did.
func (c *Cache) redeliver(ctx context.Context) bool {
	if c.pending.empty() {
		return false
	}
	for _, p := range c.pending.parcels() {
		if _, err := c.deliver(ctx, p.ids, p.tables); err != nil {
			return false
		}
		c.pending.delivered(p)
	}
	return c.pending.empty()
}

// Close implements cache.Cache. A process that told of all its writes leaves the
// fleet; the others wait for one that could not.
func (c *Cache) Close(ctx context.Context) error {
	if !c.breaker.open.Load() && (c.pending.empty() || c.redeliver(ctx)) && c.fleet.told() {
		_ = c.ask(ctx, "leave", time.Now())
	}
	c.gather.flying.Wait()
	if err := c.client.Close(); err != nil && !errors.Is(err, goredis.ErrClosed) {
		return fmt.Errorf("close the connections to Redis: %w", err)
	}
	return nil
}

// Status is what an operator should know: nil when the cache is in use.
func (c *Cache) Status() error {
	if why := c.breaker.why(); why != nil {
		return why
	}
	absent, apart, _ := c.fleet.missing()
	switch {
	case len(absent) > 0:
		return fmt.Errorf("%w: %s", errAbsent, strings.Join(absent, ", "))
	case len(apart) > 0:
		return fmt.Errorf("%w: %s", errApart, strings.Join(apart, ", "))
	}
	return nil
}

// Cached answers are withheld, since a process may have written that cannot tell, or
// told where this one does not look.
var (
	errAbsent = errors.New("no cached answers while processes that share the cache are silent")
	errApart  = errors.New("no cached answers while processes that share the cache see other primaries of the cluster")
)
