package schema

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// crowd is a store over many tenants, each with the pool that config gives it.
func crowd(t *testing.T, configs map[tenant.ID]clickhouse.Config) *Store {
	t.Helper()
	pools := clickhouse.NewPools(clickhouse.Options{})
	t.Cleanup(func() {
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		pools.Close(gone)
	})
	require.Empty(t, pools.Reconcile(configs))
	s := New(Options{Pools: pools, BackoffMin: 20 * time.Millisecond, BackoffMax: 50 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	specs := map[tenant.ID]Spec{}
	for id := range configs {
		specs[id] = Spec{RefreshInterval: time.Hour}
	}
	s.Reconcile(specs)
	return s
}

func reach(port int, s *clickhousetest.Server) clickhouse.Config {
	return clickhouse.Config{
		Addr: s.Host, HTTPScheme: "http", HTTPPort: port, Database: s.Database, Username: "default", QueryTimeout: 10 * time.Second,
	}
}

func (s *Store) load() (active, waiting int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active, len(s.urgent) + len(s.routine)
}

// Servers that accept and say nothing take neither all places nor the time of a
// tenant whose server answers.
func TestHangingServersLeaveRoomForOthers(t *testing.T) {
	server := clickhousetest.Start(t)
	server.Exec(t, "CREATE TABLE here (id UInt8) ENGINE = MergeTree ORDER BY id")
	hanging := clickhousetest.NewTCPProxy(t, server.HTTPAddr())
	hanging.Hang()
	configs := map[tenant.ID]clickhouse.Config{"good": reach(server.HTTPPort, server)}
	for i := range 40 {
		c := reach(hanging.Port(), server)
		c.Database = fmt.Sprintf("d%d", i)
		configs[tenant.ID(fmt.Sprintf("hung%d", i))] = c
	}
	before := runtime.NumGoroutine()
	s := crowd(t, configs)
	require.Eventually(t, func() bool { _, ok := s.Catalogue("good"); return ok }, time.Minute, 5*time.Millisecond)
	active, waiting := s.load()
	require.LessOrEqual(t, active, maxPerServer)
	require.Positive(t, waiting)
	require.Less(t, runtime.NumGoroutine()-before, 100, "who waits has no goroutine")
	server.Exec(t, "CREATE TABLE fresh (id UInt8) ENGINE = MergeTree ORDER BY id")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := s.RefreshEarly(ctx, "good")
	require.NoError(t, err)
	_, ok := c.Table("fresh")
	require.True(t, ok)

	// Who leaves no longer waits.
	s.Reconcile(map[tenant.ID]Spec{"good": {RefreshInterval: time.Hour}})
	require.Eventually(t, func() bool { active, waiting := s.load(); return active == 0 && waiting == 0 }, 60*time.Second, 5*time.Millisecond)
	require.Empty(t, s.Pending())
}

func TestEqualTablesAreCompiledOnce(t *testing.T) {
	first, second := clickhousetest.Start(t), clickhousetest.Start(t)
	for _, s := range []*clickhousetest.Server{first, second} {
		s.Exec(t, "CREATE TABLE same (id UInt8, s String) ENGINE = MergeTree ORDER BY id")
	}
	second.Exec(t, "CREATE TABLE other (id UInt8) ENGINE = MergeTree ORDER BY id")
	s := crowd(t, map[tenant.ID]clickhouse.Config{"a": reach(first.HTTPPort, first), "b": reach(second.HTTPPort, second)})
	require.Eventually(t, func() bool { return len(s.Pending()) == 0 }, time.Minute, 5*time.Millisecond)
	a, _ := s.Catalogue("a")
	b, _ := s.Catalogue("b")
	tableA, _ := a.Table("same")
	tableB, _ := b.Table("same")
	require.Same(t, tableA, tableB)
	_, leaked := a.Table("other")
	require.False(t, leaked, "a catalogue is its tenant's own")
	first.Exec(t, "ALTER TABLE same ADD COLUMN n Int64")
	require.NoError(t, s.Refresh(t.Context(), "a"))
	a, _ = s.Catalogue("a")
	tableA, _ = a.Table("same")
	require.NotSame(t, tableA, tableB)
	require.Len(t, tableB.Columns, 2)
}

func TestTablesThatAreGoneAreForgotten(t *testing.T) {
	n := newInterner()
	kept := n.compiled(&Table{Name: "kept"}, time.UTC)
	for i := range 10 * minSweep {
		n.compiled(&Table{Name: fmt.Sprint(i)}, time.UTC)
		if i%minSweep == 0 {
			runtime.GC()
		}
	}
	require.Less(t, len(n.tables), 5*minSweep)
	require.Same(t, kept, n.compiled(&Table{Name: "kept"}, time.UTC))
}

func TestFingerprintsTellTablesApart(t *testing.T) {
	base := Table{Name: "t", Engine: "Log", Columns: []record.Column{{Name: "a", Type: "String", Position: 1}}}
	others := []Table{
		{Name: "t2", Engine: base.Engine, Columns: base.Columns},
		{Name: base.Name, Engine: "Memory", Columns: base.Columns},
		{Name: base.Name, Engine: base.Engine},
		{Name: base.Name, Engine: base.Engine, Columns: []record.Column{{Name: "aS", Type: "tring", Position: 1}}},
		{Name: base.Name, Engine: base.Engine, Columns: []record.Column{{Name: "a", Type: "String", Position: 2}}},
		{Name: base.Name, Engine: base.Engine, Columns: []record.Column{{Name: "a", Type: "String", Position: 1, Comment: "c"}}},
		{Name: base.Name, Engine: base.Engine, Columns: []record.Column{{Name: "a", Type: "String", Position: 1, DefaultKind: "DEFAULT"}}},
	}
	for _, other := range others {
		require.NotEqual(t, fingerprint(&base, time.UTC), fingerprint(&other, time.UTC))
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	require.NotEqual(t, fingerprint(&base, time.UTC), fingerprint(&base, berlin))
}
