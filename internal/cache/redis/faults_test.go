package redis_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/cache/redis"
	"github.com/wavehouse/wavehouse/internal/cache/redis/redistest"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// real are about the times of the product: leases half as long, budgets for a machine
// that is busy.
func real(member string) redis.Options {
	return redis.Options{
		Mode: redis.Standalone, Prefix: "wh", Member: member, Absence: time.Hour, OpTimeout: 400 * time.Millisecond,
		Timing: redis.Timing{Lease: time.Second},
	}
}

const (
	tables  = 4
	tenants = 3
)

// search is load on processes that share a store: some write and tell, all ask. A
// stale answer is one that is older than what was told before its question.
type search struct {
	t      *testing.T
	caches []*redis.Cache
	reads  []*cache.Reads
	// pad makes answers large.
	pad string

	stored, told [tenants][tables]atomic.Int64
	hits         []atomic.Int64
	answers      atomic.Int64
	stale        atomic.Int64
	stop         context.CancelFunc
	all          sync.WaitGroup
}

// seek begins the load of processes with these options; it ends with the test.
func seek(t *testing.T, pad string, options ...redis.Options) *search {
	t.Helper()
	s := &search{t: t, pad: pad, hits: make([]atomic.Int64, len(options))}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	t.Cleanup(s.end)
	for _, o := range options {
		c := open(t, o)
		s.caches, s.reads = append(s.caches, c), append(s.reads, cache.NewReads(cache.ReadsOptions{Cache: c}))
		s.all.Go(func() { assert.NoError(t, c.Run(ctx)) })
	}
	for i := range s.caches {
		s.all.Go(func() { s.write(ctx, i) })
		for range 2 {
			s.all.Go(func() { s.ask(ctx, i) })
		}
	}
	return s
}

func (s *search) write(ctx context.Context, at int) {
	for ctx.Err() == nil {
		id, table := rand.IntN(tenants), rand.IntN(tables)
		now := s.stored[id][table].Add(1)
		var err error
		if rand.IntN(32) == 0 {
			err = s.caches[at].InvalidateTenants(ctx, []tenant.ID{tenantOf(id)})
		} else {
			err = s.caches[at].Invalidate(ctx, []tenant.ID{tenantOf(id)}, []string{tableOf(table)})
		}
		if ctx.Err() != nil {
			return
		}
		_ = err // told, whether the store knows or not
		for {
			before := s.told[id][table].Load()
			if before >= now || s.told[id][table].CompareAndSwap(before, now) {
				break
			}
		}
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
	}
}

func (s *search) ask(ctx context.Context, at int) {
	// Questions of its own: none joins another's query.
	self := strconv.Itoa(rand.IntN(1 << 30))
	for ctx.Err() == nil {
		id, table := rand.IntN(tenants), rand.IntN(tables)
		least := s.told[id][table].Load()
		question := self
		if rand.IntN(2) == 0 {
			question = "shared by all"
		}
		value, outcome, err := s.reads[at].Get(ctx, cache.Query{
			Key: cache.NewKey(tenantOf(id)).Add(question).Add(tableOf(table)).Key(),
			Dependencies: func(context.Context) cache.Dependencies {
				return cache.Dependencies{Tables: []string{tableOf(table)}, Complete: true}
			},
			Run: func(context.Context) (cache.Answer, error) {
				seen := s.stored[id][table].Load()
				time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
				return cache.Answer{Body: []byte(fmt.Sprintf("%d %s", seen, s.pad)), ContentType: "text/plain"}, nil
			},
		})
		if err != nil {
			continue // the end
		}
		body, err := value.Body()
		require.NoError(s.t, err)
		number, _, _ := strings.Cut(string(body), " ")
		got, _ := strconv.ParseInt(number, 10, 64)
		s.answers.Add(1)
		if outcome == cache.Hit {
			s.hits[at].Add(1)
		}
		// Whoever joins a query, while nobody can be asked of others' writes, may
		// be told what was so when it began.
		if got < least && outcome != cache.Shared {
			s.stale.Add(1)
			s.t.Errorf("process %d, %s: %s of tenant %s answered %d, told %d before", at, outcome, tableOf(table), tenantOf(id), got, least)
			return
		}
		time.Sleep(time.Duration(rand.IntN(4000)) * time.Microsecond)
	}
}

func tenantOf(i int) tenant.ID { return tenant.ID("tenant" + strconv.Itoa(i)) }
func tableOf(i int) string     { return "db.t" + strconv.Itoa(i) }

// awaitHits waits until each process answered from the cache, again.
func (s *search) awaitHits(what string) {
	s.t.Helper()
	s.awaitHitsWithin(time.Minute, what)
}

func (s *search) awaitHitsWithin(patience time.Duration, what string) {
	s.t.Helper()
	for i := range s.hits {
		before := s.hits[i].Load()
		require.Eventually(s.t, func() bool { return s.hits[i].Load() > before+5 }, patience, 5*time.Millisecond,
			"%s: process %d has no hits: %v", what, i, s.caches[i].Status())
	}
}

// end ends the load and says what it was.
func (s *search) end() {
	s.stop()
	s.all.Wait()
	var hits int64
	for i := range s.hits {
		hits += s.hits[i].Load()
	}
	s.t.Logf("%d answers, %d of them hits, %d stale", s.answers.Load(), hits, s.stale.Load())
}

// two are the options of two processes.
func two(o redis.Options) []redis.Options {
	other := o
	other.Member = "other"
	return []redis.Options{o, other}
}

func TestNothingIsStaleWhenSentinelsFailOver(t *testing.T) {
	redistest.Each(t, func(t *testing.T, flavor redistest.Flavor) {
		trio := redistest.StartTrio(t, flavor)
		o := real("one")
		o.Mode, o.Addresses, o.Master = redis.Sentinel, trio.Addrs(), redistest.MasterName
		s := seek(t, "", two(o)...)
		s.awaitHits("at first")

		before := trio.Primary(t)
		trio.Sentinels[0].Do(t, "SENTINEL", "FAILOVER", redistest.MasterName)
		now := trio.AwaitFailover(t, before)
		s.awaitHits("after an ordered failover")

		now.Kill()
		last := trio.AwaitFailover(t, now)
		s.awaitHits("after the primary was killed")

		last.Freeze()
		trio.AwaitFailover(t, last)
		s.awaitHits("after the primary hung")
		last.Thaw()
		time.Sleep(500 * time.Millisecond) // load while the former primary believes to be one
		s.awaitHits("after it came back")
	})
}

func TestNothingIsStaleWhenTheServerHangsOrRestarts(t *testing.T) {
	redistest.Each(t, func(t *testing.T, flavor redistest.Flavor) {
		server := redistest.Start(t, flavor, "--save", "")
		o := real("one")
		o.Addresses = []string{server.Addr()}
		s := seek(t, "", two(o)...)
		s.awaitHits("at first")
		for _, hang := range []time.Duration{150 * time.Millisecond, 700 * time.Millisecond, 2500 * time.Millisecond} {
			server.Freeze()
			time.Sleep(hang)
			server.Thaw()
			s.awaitHits("after it hung for " + hang.String())
		}

		// What was saved is older than what was told since.
		server.Save(t)
		s.awaitHits("meanwhile")
		server.Kill()
		server.Start(t)
		s.awaitHits("after a restart from an old file")

		server.Do(t, "FLUSHALL")
		server.Do(t, "SWAPDB", 0, 1)
		s.awaitHits("after it lost everything")
	})
}

// Both processes find their way to another server that their address names from
// now on, though connections to the one before stay open.
func TestNothingIsStaleWhenAPrimaryIsDemoted(t *testing.T) {
	t.Parallel()
	a := redistest.Start(t, redistest.Redis, "--save", "")
	b := redistest.Start(t, redistest.Redis, "--save", "", "--replicaof", "127.0.0.1 "+strconv.Itoa(a.Port))
	way := newPath(t, a.Addr())
	o := real("one")
	o.Addresses = []string{way.addr}
	s := seek(t, "", two(o)...)
	s.awaitHits("at first")
	require.Eventually(t, func() bool { return b.Info(t, "replication", "master_link_status") == "up" }, time.Minute, time.Millisecond)

	b.Do(t, "REPLICAOF", "NO", "ONE")
	a.Do(t, "REPLICAOF", "127.0.0.1", b.Port)
	way.lead(b.Addr())
	s.awaitHits("after the roles were swapped")
	entries, err := b.Client().Keys(context.Background(), "{wh:tenant*}e:*").Result()
	require.NoError(t, err)
	assert.NotEmpty(t, entries, "new answers are kept on the other server")

	// And back: what the first kept of its own time is not believed again.
	a.Do(t, "REPLICAOF", "NO", "ONE")
	b.Do(t, "REPLICAOF", "127.0.0.1", a.Port)
	way.lead(a.Addr())
	s.awaitHits("after they were swapped back")
}

// A process that is cut off goes on writing; the others answer without the cache
// until it is back.
func TestNothingIsStaleWhenOneProcessIsCutOff(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis, "--save", "")
	way := newPath(t, server.Addr())
	one, other := real("one"), real("other")
	one.Addresses, other.Addresses = []string{server.Addr()}, []string{way.addr}
	s := seek(t, "", one, other)
	s.awaitHits("at first")
	way.cut(true)
	require.Eventually(t, func() bool {
		err := s.caches[0].Status()
		return err != nil && strings.Contains(err.Error(), "silent: other")
	}, time.Minute, 5*time.Millisecond, "the others say who is missing")
	require.Eventually(t, func() bool { return s.caches[1].Status() != nil }, time.Minute, 5*time.Millisecond, "and it knows")
	// Whoever asked before is answered, and then nobody more.
	require.Eventually(t, func() bool {
		before := s.hits[0].Load()
		time.Sleep(500 * time.Millisecond)
		return s.hits[0].Load() == before
	}, time.Minute, time.Millisecond, "no cached answers while a process may have written")
	way.cut(false)
	s.awaitHits("after it came back")
	for _, c := range s.caches {
		require.Eventually(t, func() bool { return c.Status() == nil }, time.Minute, 5*time.Millisecond)
	}
}

// Two servers that both believe to be the primary, a process at each.
func TestNothingIsStaleWhenTwoServersBelieveToBeThePrimary(t *testing.T) {
	t.Parallel()
	a := redistest.Start(t, redistest.Redis, "--save", "")
	b := redistest.Start(t, redistest.Redis, "--save", "", "--replicaof", "127.0.0.1 "+strconv.Itoa(a.Port))
	way := newPath(t, a.Addr())
	one, other := real("one"), real("other")
	one.Addresses, other.Addresses = []string{a.Addr()}, []string{way.addr}
	s := seek(t, "", one, other)
	s.awaitHits("at first")
	require.Eventually(t, func() bool { return b.Info(t, "replication", "master_link_status") == "up" }, time.Minute, time.Millisecond)
	b.Do(t, "REPLICAOF", "NO", "ONE")
	way.lead(b.Addr())
	way.drop() // else it would stay where it is
	require.Eventually(t, func() bool { return s.caches[0].Status() != nil }, time.Minute, 5*time.Millisecond)
	time.Sleep(2 * time.Second) // load on both
	way.lead(a.Addr())
	way.drop()
	s.awaitHits("after they met again")
}

func TestNothingIsStaleWhenTheServerEvicts(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"allkeys-random", "allkeys-lru", "volatile-ttl", "noeviction"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Redis, "--save", "", "--maxmemory-policy", policy)
			used, err := strconv.Atoi(server.Info(t, "memory", "used_memory"))
			require.NoError(t, err)
			server.Do(t, "CONFIG", "SET", "maxmemory", used+1<<20) // half of what the answers take
			o := real("one")
			o.Addresses = []string{server.Addr()}
			s := seek(t, noise(32<<10), two(o)...)
			if policy == "noeviction" {
				require.Eventually(t, func() bool {
					err := s.caches[0].Status()
					return err != nil && strings.Contains(err.Error(), "the server is full")
				}, time.Minute, time.Millisecond, "the server that is full is named")
				server.Do(t, "CONFIG", "SET", "maxmemory", "0")
				s.awaitHits("with room")
				return
			}
			require.Eventually(t, func() bool {
				evicted, _ := strconv.Atoi(server.Info(t, "stats", "evicted_keys"))
				return evicted > 100
			}, time.Minute, 10*time.Millisecond)
		})
	}
}

// noise is text that does not shrink.
func noise(n int) string {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte('!' + rand.IntN(90))
	}
	return string(out)
}

func TestNothingIsStaleInAClusterThatMovesAndFailsOver(t *testing.T) {
	redistest.Each(t, func(t *testing.T, flavor redistest.Flavor) {
		six := redistest.StartSix(t, flavor)
		o := real("one")
		o.Mode, o.Addresses = redis.Cluster, six.Addrs()
		s := seek(t, "", two(o)...)
		s.awaitHits("at first")
		for range 2 { // there and back
			key := "{wh:tenant0}v"
			from := six.Owner(t, key)
			to := six.Nodes[0]
			if to == from {
				to = six.Nodes[1]
			}
			six.Move(t, key, from, to)
			s.awaitHits("after a slot moved")
		}
		former := six.Owner(t, "{wh:tenant1}v")
		former.Freeze()
		require.Eventually(t, func() bool { return six.Owner(t, "{wh:tenant1}v", former) != former }, time.Minute, 10*time.Millisecond)
		former.Thaw() // with questions of who does not know yet
		s.awaitHits("after a primary hung")
		require.Eventually(t, func() bool { return former.Info(t, "replication", "master_link_status") == "up" }, time.Minute, 10*time.Millisecond)

		owner := six.Owner(t, "{wh:tenant1}v")
		owner.Kill()
		require.Eventually(t, func() bool { return six.Owner(t, "{wh:tenant1}v") != owner }, time.Minute, 10*time.Millisecond)
		// Nobody redirects from a dead node: that another took its place is to be found out.
		s.awaitHitsWithin(30*time.Second, "after a primary was killed")
	})
}

// One process goes on with the former primary of a shard, another with the new one;
// the shard where they meet is the same.
func TestNothingIsStaleWhenProcessesSeeOtherPrimaries(t *testing.T) {
	t.Parallel()
	var shards [2]*redistest.Server
	for i := range shards {
		shards[i] = redistest.Start(t, redistest.Redis, "--save", "")
	}
	promoted := redistest.Start(t, redistest.Redis, "--save", "", "--replicaof", "127.0.0.1 "+strconv.Itoa(shards[1].Port))
	options := two(real("one"))
	var ways [2]*path // to the shard that is split
	for i := range options {
		ways[i] = newPath(t, shards[1].Addr())
		options[i].Mode = redis.Cluster
		options[i].Addresses = []string{newSlots(t, newPath(t, shards[0].Addr()).addr, ways[i].addr)}
	}
	s := seek(t, "", options...)
	s.awaitHits("at first")
	require.Eventually(t, func() bool { return promoted.Info(t, "replication", "master_link_status") == "up" }, time.Minute, time.Millisecond)
	promoted.Do(t, "REPLICAOF", "NO", "ONE")
	ways[1].lead(promoted.Addr())
	ways[1].drop()
	for i, other := range []string{"other", "one"} {
		require.Eventually(t, func() bool {
			err := s.caches[i].Status()
			return err != nil && strings.Contains(err.Error(), "see other primaries of the cluster: "+other)
		}, time.Minute, time.Millisecond, "process %d names who sees others", i)
	}
	time.Sleep(2 * time.Second) // load on both
	ways[0].lead(promoted.Addr())
	ways[0].drop()
	s.awaitHits("after they saw the same again")
}

func TestNothingIsStaleWhenCredentialsChange(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis, "--save", "")
	server.Do(t, "ACL", "SETUSER", "app", "on", ">first", "~*", "+@all")
	one, other := real("one"), real("other")
	one.Addresses, other.Addresses = []string{server.Addr()}, []string{server.Addr()}
	one.Username, one.Password = "app", "first"
	s := seek(t, "", one, other)
	s.awaitHits("at first")
	server.Do(t, "ACL", "SETUSER", "app", "resetpass", ">second")
	server.Do(t, "CLIENT", "KILL", "USER", "app")
	require.Eventually(t, func() bool {
		err := s.caches[0].Status()
		return err != nil && strings.Contains(err.Error(), "the user or the password is wrong")
	}, time.Minute, 5*time.Millisecond)
	time.Sleep(500 * time.Millisecond)
	server.Do(t, "ACL", "SETUSER", "app", "resetpass", ">first")
	s.awaitHits("with the password it has")
	server.Do(t, "ACL", "SETUSER", "app", "-hset")
	require.Eventually(t, func() bool {
		err := s.caches[0].Status()
		return err != nil && strings.Contains(err.Error(), "lacks permissions")
	}, time.Minute, 5*time.Millisecond)
	server.Do(t, "ACL", "SETUSER", "app", "+hset")
	s.awaitHits("with all it needs")
}
