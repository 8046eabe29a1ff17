package redis_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
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
	seeds = flag.Int("seeds", 3, "histories of the model that are tried")
	from  = flag.Uint64("seed", 1, "the first of them; 0 is another each time, to search on")
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
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			m := newModel(t, seed)
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

// model is the truth, and what is held to it.
type model struct {
	t     *testing.T
	rand  *rand.Rand
	step  int
	steps map[string]int

	servers   [2]*redistest.Server
	primary   int
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

// process is one that shares the store.
type process struct {
	cache *redis.Cache
	way   *path
	out   bool
	stop  func()
}

// slowQuery was begun, and its answer is filled later.
type slowQuery struct {
	at     int
	ticket cache.Ticket
	value  *cache.Value
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{t: t, rand: rand.New(rand.NewPCG(seed, 1)), steps: map[string]int{}}
	m.servers[0] = redistest.Start(t, redistest.Redis, "--save", "")
	m.servers[1] = redistest.Start(t, redistest.Redis, "--save", "", "--replicaof", "127.0.0.1 "+strconv.Itoa(m.servers[0].Port))
	for i := range m.processes {
		m.processes[i] = &process{way: newPath(t, m.servers[0].Addr())}
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
		Mode: redis.Standalone, Addresses: []string{p.way.addr}, Prefix: "wh", Member: fmt.Sprint("process", i), Absence: time.Hour,
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
		{"save", 2, func() { m.now().Do(m.t, "SAVE") }},
		{"restart", 1, m.restart},
		{"cut", 2, m.cut},
		{"hang", 1, m.hang},
		{"fail over", 1, m.failOver},
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
			m.note("%s", s.name)
			s.run()
			return
		}
	}
}

func (m *model) now() *redistest.Server { return m.servers[m.primary] }

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
	p := m.processes[m.rand.IntN(len(m.processes))]
	p.out = !p.out
	p.way.cut(p.out)
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
	before := m.now()
	if m.rand.IntN(2) == 0 {
		before.Freeze() // and what it was told last is lost
		m.write()
		defer before.Thaw()
	}
	m.primary = 1 - m.primary
	m.now().Do(m.t, "REPLICAOF", "NO", "ONE")
	for _, p := range m.processes {
		if m.rand.IntN(4) > 0 {
			p.way.lead(m.now().Addr())
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
			p.way.lead(m.now().Addr())
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
		p.out = false
		p.way.cut(false)
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
