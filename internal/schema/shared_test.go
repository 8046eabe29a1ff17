package schema

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// TestTenantsOfOneDatabaseShareADiscovery: however many there are, ClickHouse is
// asked once, and whoever changes to another database sees that one alone.
func TestTenantsOfOneDatabaseShareADiscovery(t *testing.T) {
	server, other := clickhousetest.Start(t), clickhousetest.Start(t)
	server.Exec(t, "CREATE TABLE here (id UInt8) ENGINE = MergeTree ORDER BY id")
	other.Exec(t, "CREATE TABLE there (id UInt8) ENGINE = MergeTree ORDER BY id")
	asked := clickhousetest.NewFaultProxy(t, server.HTTPAddr())
	pools := clickhouse.NewPools(clickhouse.Options{})
	t.Cleanup(func() { pools.Close(context.Background()) })
	s := New(Options{Pools: pools})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() { cancel(); require.NoError(t, <-done) })

	configs, specs := map[tenant.ID]clickhouse.Config{}, map[tenant.ID]Spec{}
	for i := range 500 {
		id := tenant.ID(fmt.Sprintf("t%03d", i))
		configs[id] = reach(asked.Port(), server)
		specs[id] = Spec{RefreshInterval: time.Hour}
	}
	require.Empty(t, pools.Reconcile(configs))
	s.Reconcile(specs)
	require.Eventually(t, func() bool { return len(s.Pending()) == 0 }, time.Minute, 5*time.Millisecond)
	require.LessOrEqual(t, asked.Count(), 3, "the zone, the tables, the columns")
	a, _ := s.Catalogue("t000")
	b, _ := s.Catalogue("t499")
	require.Same(t, a, b)

	// The one who asks first has another pool by now, of which the store has
	// not heard: the others must not see its tables.
	configs["t000"] = reach(other.HTTPPort, other)
	require.Empty(t, pools.Reconcile(configs))
	require.NoError(t, s.Refresh(t.Context(), "t499"))
	b, _ = s.Catalogue("t499")
	_, here := b.Table("here")
	_, there := b.Table("there")
	require.True(t, here)
	require.False(t, there)

	s.Reconcile(specs)
	require.Eventually(t, func() bool { return len(s.Pending()) == 0 }, time.Minute, 5*time.Millisecond)
	a, _ = s.Catalogue("t000")
	_, here = a.Table("here")
	_, there = a.Table("there")
	require.False(t, here)
	require.True(t, there)

	// Who leaves takes nothing from the others.
	delete(specs, "t499")
	s.Reconcile(specs)
	_, known := s.Catalogue("t499")
	require.False(t, known)
	_, known = s.Catalogue("t001")
	require.True(t, known)
}

// TestARequestHasTablesDiscoveredEarly: after an outage at the start the waits
// between attempts are long, and who asks need not wait for their end.
func TestARequestHasTablesDiscoveredEarly(t *testing.T) {
	r := newRig(t, false)
	r.Store = New(Options{Pools: r.pools, Now: r.clock.now, BackoffMin: time.Hour, BackoffMax: time.Hour})
	r.proxy.Refuse()
	r.run(t)
	require.Eventually(t, func() bool { return r.Pending()[tenant.Default] != nil }, time.Minute, 5*time.Millisecond)
	c, err := r.RefreshEarly(t.Context(), tenant.Default)
	require.Nil(t, c, "it was tried just before")
	require.ErrorContains(t, err, "cannot reach ClickHouse")
	r.proxy.Pass(t)
	require.Eventually(t, func() bool {
		c, err := r.RefreshEarly(t.Context(), tenant.Default)
		return err == nil && c != nil
	}, time.Minute, 100*time.Millisecond)
	_, loaded := r.Catalogue(tenant.Default)
	require.True(t, loaded)
}

// TestANewPasswordKeepsTheTables: they are discovered anew, and known meanwhile.
func TestANewPasswordKeepsTheTables(t *testing.T) {
	r := newRig(t, true)
	c := r.awaitLoaded(t)
	config := reach(r.proxy.Port(), r.server)
	config.Password = "another"
	require.Empty(t, r.pools.Reconcile(map[tenant.ID]clickhouse.Config{tenant.Default: config}))
	r.Reconcile(map[tenant.ID]Spec{tenant.Default: {RefreshInterval: time.Hour}})
	kept, loaded := r.Catalogue(tenant.Default)
	require.True(t, loaded)
	require.Equal(t, c.Tables(), kept.Tables())
}
