package redis_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/cache/redis"
	"github.com/wavehouse/wavehouse/internal/cache/redis/redistest"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

var (
	seeds = flag.Int("seeds", 2, "histories of the model that are tried")
	from  = flag.Uint64("seed", 111, "the first of them; 0 is another each time, to search on")
)

// TestNoHistoryHasAStaleAnswer holds real servers and processes to a model: what
// is stored, and what was told of. In a random history of reads, writes, slow
// queries, crashes and every fault of the store, no answer is older than what was
// told before its question; and once nothing is wrong, answers are kept.
func TestNoHistoryHasAStaleAnswer(t *testing.T) {
	for i := range *seeds {
		seed := *from + uint64(i)
		if *from == 0 {
			seed = rand.Uint64()
		}
		for mode, shards := range map[redis.Mode]int{redis.Standalone: 1, redis.Cluster: 2} {
			t.Run(string(mode)+" "+strconv.FormatUint(seed, 10), func(t *testing.T) {
				t.Parallel()
				m := newModel(t, seed, mode, shards)
				for m.step = range 150 {
					m.any()
				}
				m.heal()
				for i := range m.processes {
					m.awaitHit(i)
				}
				t.Logf("%d reads, %d hits, steps: %v", m.reads, m.hits, m.steps)
			})
		}
	}
}

// model is the truth, and what is held to it.
type model struct {
	t     *testing.T
	rand  *rand.Rand
	step  int
	steps map[string]int

	mode      redis.Mode
	shards    []*shard
	at        *shard // of the step
	processes [3]*process
	slow      []slowQuery

	stored, told [tables]int
	reads, hits  int
	// trace is what was done, for whoever looks for the cause of a failure.
	trace []string
}

func (m *model) note(format string, args ...any) {
	m.trace = append(m.trace, fmt.Sprintf("%s step %d: ", time.Now().Format("05.000"), m.step)+fmt.Sprintf(format, args...))
}

// shard is a part of the store: a primary and its replica.
type shard struct {
	servers [2]*redistest.Server
	primary int
}

func (s *shard) now() *redistest.Server { return s.servers[s.primary] }

// process is one that shares the store, with a way to each shard.
type process struct {
	cache *redis.Cache
	addr  string
	ways  []*path
	out   []bool
	stop  func()
}

// slowQuery was begun, and its answer is filled later.
type slowQuery struct {
	at     int
	ticket cache.Ticket
	value  *cache.Value
}

func newModel(t *testing.T, seed uint64, mode redis.Mode, shards int) *model {
	m := &model{t: t, rand: rand.New(rand.NewPCG(seed, 1)), steps: map[string]int{}, mode: mode}
	for range shards {
		s := &shard{}
		s.servers[0] = redistest.Start(t, redistest.Redis, "--save", "")
		s.servers[1] = redistest.Start(t, redistest.Redis, "--save", "", "--replicaof", "127.0.0.1 "+strconv.Itoa(s.servers[0].Port))
		m.shards = append(m.shards, s)
	}
	for i := range m.processes {
		p := &process{out: make([]bool, shards)}
		for _, s := range m.shards {
			p.ways = append(p.ways, newPath(t, s.now().Addr()))
		}
		p.addr = p.ways[0].addr
		if mode == redis.Cluster {
			owners := make([]string, len(p.ways))
			for i, way := range p.ways {
				owners[i] = way.addr
			}
			p.addr = newSlots(t, owners...)
		}
		m.processes[i] = p
		m.boot(i)
	}
	t.Cleanup(func() {
		for _, p := range m.processes {
			p.stop()
		}
	})
	return m
}

// boot starts a process, in the place of one that crashed.
func (m *model) boot(i int) {
	p := m.processes[i]
	c, err := redis.New(redis.Options{
		Mode: m.mode, Addresses: []string{p.addr}, Prefix: "wh", Member: fmt.Sprint("process", i), Absence: time.Hour,
		OpTimeout: 50 * time.Millisecond, Timing: redis.Timing{Lease: 150 * time.Millisecond},
	})
	require.NoError(m.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var ran sync.WaitGroup
	ran.Go(func() { _ = c.Run(ctx) })
	p.cache = c
	p.stop = func() { // as a crash: nothing is told, nobody leaves
		cancel()
		ran.Wait()
	}
}

// any takes a step.
func (m *model) any() {
	steps := []struct {
		name   string
		weight int
		run    func()
	}{
		{"read", 50, m.read},
		{"slow query", 8, m.ask},
		{"slow answer", 8, m.fill},
		{"write", 20, m.write},
		{"evict", 5, func() {
			m.now().Do(m.t, "EVAL", `local k = redis.call('RANDOMKEY') if k then redis.call('UNLINK', k) end`, 0)
		}},
		{"flush", 1, func() { m.now().Do(m.t, "FLUSHALL") }},
		{"save", 2, func() { m.now().Save(m.t) }},
		{"restart", 1, m.restart},
		{"cut", 2, m.cut},
		{"hang", 1, m.hang},
		{"fail over", 4, m.failOver},
		{"crash", 1, m.crash},
		{"wait", 6, func() { time.Sleep(time.Duration(m.rand.IntN(500)) * time.Millisecond) }},
	}
	total := 0
	for _, s := range steps {
		total += s.weight
	}
	at := m.rand.IntN(total)
	for _, s := range steps {
		if at -= s.weight; at < 0 {
			m.steps[s.name]++
			m.at = m.shards[m.rand.IntN(len(m.shards))]
			m.note("%s", s.name)
			s.run()
			return
		}
	}
}

func (m *model) now() *redistest.Server { return m.at.now() }

func (m *model) key(table int) cache.Key { return cache.NewKey("a").Add(tableOf(table)).Key() }

func (m *model) body(table int) *cache.Value {
	return cache.NewValue([]byte(strconv.Itoa(m.stored[table])), "text/plain", []string{tableOf(table)})
}

// read asks, and fills what it found out.
func (m *model) read() {
	for range 4 {
		m.lookup(m.rand.IntN(len(m.processes)), m.rand.IntN(tables))
	}
}

func (m *model) lookup(i, table int) (hit bool) {
	c := m.processes[i].cache
	value, ticket := c.Lookup(m.t.Context(), m.key(table))
	m.reads++
	if value == nil {
		m.note("process %d: fill %s = %d under %+v", i, tableOf(table), m.stored[table], ticket.Store)
		c.Fill(m.t.Context(), ticket, m.body(table), time.Hour)
		return false
	}
	m.hits++
	body, err := value.Body()
	require.NoError(m.t, err)
	got, _ := strconv.Atoi(string(body))
	m.note("process %d: hit %s = %d under %+v", i, tableOf(table), got, ticket.Store)
	require.GreaterOrEqual(m.t, got, m.told[table], "step %d: process %d answered for %s what was before:\n%s",
		m.step, i, tableOf(table), strings.Join(m.trace[max(0, len(m.trace)-60):], "\n"))
	return true
}

// ask begins a query whose answer comes later.
func (m *model) ask() {
	i, table := m.rand.IntN(len(m.processes)), m.rand.IntN(tables)
	if value, ticket := m.processes[i].cache.Lookup(m.t.Context(), m.key(table)); value == nil {
		m.slow = append(m.slow, slowQuery{i, ticket, m.body(table)})
	}
}

// fill files the answer of a slow query.
func (m *model) fill() {
	if len(m.slow) == 0 {
		return
	}
	i := m.rand.IntN(len(m.slow))
	q := m.slow[i]
	m.slow = append(m.slow[:i], m.slow[i+1:]...)
	m.note("process %d: slow fill %v under %+v", q.at, q.value, q.ticket.Store)
	m.processes[q.at].cache.Fill(m.t.Context(), q.ticket, q.value, time.Hour)
}

func (m *model) write() {
	i, table := m.rand.IntN(len(m.processes)), m.rand.IntN(tables)
	m.stored[table]++
	var err error
	if m.rand.IntN(8) == 0 {
		err = m.processes[i].cache.InvalidateTenants(m.t.Context(), []tenant.ID{"a", "b"})
	} else {
		err = m.processes[i].cache.Invalidate(m.t.Context(), []tenant.ID{"b", "a"}, []string{tableOf(table), "db.other"})
	}
	m.told[table] = m.stored[table]
	m.note("process %d: wrote %s = %d: %v", i, tableOf(table), m.told[table], err)
}

// restart kills the primary, which comes back with what it saved last.
func (m *model) restart() {
	m.now().Kill()
	m.now().Start(m.t)
	m.now().Do(m.t, "REPLICAOF", "NO", "ONE")
}

func (m *model) cut() {
	p, way := m.processes[m.rand.IntN(len(m.processes))], slices.Index(m.shards, m.at)
	p.out[way] = !p.out[way]
	p.ways[way].cut(p.out[way])
}

func (m *model) hang() {
	m.now().Freeze()
	for range m.rand.IntN(4) {
		m.write()
	}
	time.Sleep(time.Duration(m.rand.IntN(400)) * time.Millisecond)
	m.now().Thaw()
}

// failOver makes the replica the primary, without what did not reach it, while
// some processes still talk to the other.
func (m *model) failOver() {
	m.read() // so that there is what others have to forget
	m.read()
	before := m.now()
	if m.rand.IntN(2) == 0 {
		before.Freeze() // and what it was told last is lost
		m.write()
		defer before.Thaw()
	}
	way := slices.Index(m.shards, m.at)
	m.at.primary = 1 - m.at.primary
	m.now().Do(m.t, "REPLICAOF", "NO", "ONE")
	for _, p := range m.processes {
		if m.rand.IntN(4) > 0 {
			p.ways[way].lead(m.now().Addr())
			if m.rand.IntN(2) == 0 { // else what is open stays at the other
				p.ways[way].drop()
			}
		}
	}
	for range m.rand.IntN(5) {
		m.write()
		m.read()
	}
	defer func() {
		before.Thaw()
		before.Do(m.t, "REPLICAOF", "127.0.0.1", m.now().Port)
		for _, p := range m.processes {
			p.ways[way].lead(m.now().Addr())
		}
	}()
}

// crash ends a process between a write and its being told. What it wrote is known
// once the one in its place is trusted, and nobody trusts what was before.
func (m *model) crash() {
	i, table := m.rand.IntN(len(m.processes)), m.rand.IntN(tables)
	p := m.processes[i]
	p.stop()
	m.stored[table]++
	wrote := m.stored[table]
	m.slow = nil
	m.boot(i)
	m.heal()
	m.awaitHit(i)
	time.Sleep(200 * time.Millisecond) // a lease and what clocks differ in
	m.told[table] = max(m.told[table], wrote)
}

// heal ends what is wrong.
func (m *model) heal() {
	for _, p := range m.processes {
		for i, way := range p.ways {
			p.out[i] = false
			way.cut(false)
		}
	}
}

// awaitHit waits until a process answers from the cache.
func (m *model) awaitHit(i int) {
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if m.lookup(i, 0) {
			return
		}
		require.True(m.t, time.Now().Before(end), "process %d keeps nothing: %v", i, m.processes[i].cache.Status())
	}
}
