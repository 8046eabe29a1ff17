package schema

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// rig is a store over a real ClickHouse, behind a port that can be closed.
type rig struct {
	*Store
	server *clickhousetest.Server
	proxy  *clickhousetest.TCPProxy
	pools  *clickhouse.Pools
	clock  *clock
}

// clock is the real time, or that at which it was stopped, plus what a test adds.
type clock struct {
	ahead   atomic.Int64
	stopped atomic.Pointer[time.Time]
}

func (c *clock) now() time.Time {
	at := c.stopped.Load()
	if at == nil {
		real := time.Now()
		at = &real
	}
	return at.Add(time.Duration(c.ahead.Load()))
}

func (c *clock) stop() { at := time.Now(); c.stopped.Store(&at) }

func (c *clock) advance(d time.Duration) { c.ahead.Add(int64(d)) }

func newRig(t *testing.T, start bool) *rig {
	t.Helper()
	server := clickhousetest.Start(t)
	r := &rig{server: server, proxy: clickhousetest.NewTCPProxy(t, server.HTTPAddr()), clock: &clock{}}
	r.pools = clickhouse.NewPools(clickhouse.Options{})
	t.Cleanup(func() { r.pools.Close(context.Background()) })
	r.point(tenant.Default, server.Database)
	r.Store = New(Options{
		Pools: r.pools, Now: r.clock.now, BackoffMin: 20 * time.Millisecond, BackoffMax: 50 * time.Millisecond,
	})
	if start {
		r.run(t)
	}
	return r
}

func (r *rig) point(id tenant.ID, database string) {
	r.pools.Reconcile(map[tenant.ID]clickhouse.Config{id: {
		Addr: r.server.Host, Source: "clickhouse.addr of tenant " + id.String(), HTTPScheme: "http", HTTPPort: r.proxy.Port(), Database: database, Username: "default",
		QueryTimeout: 10 * time.Second,
	}})
}

func (r *rig) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	r.Reconcile(map[tenant.ID]Spec{tenant.Default: {RefreshInterval: time.Hour}})
}

func (r *rig) awaitLoaded(t *testing.T) *Catalogue {
	t.Helper()
	require.Eventually(t, func() bool {
		_, loaded := r.Catalogue(tenant.Default)
		return loaded
	}, time.Minute, 5*time.Millisecond)
	c, _ := r.Catalogue(tenant.Default)
	return c
}

func TestDiscoversTablesAndColumns(t *testing.T) {
	r := newRig(t, false)
	r.server.Exec(t,
		"CREATE TABLE pages (id UInt64, `odd name` Nullable(String) COMMENT 'why', at DateTime DEFAULT now(), day Date MATERIALIZED toDate(at), e String EPHEMERAL, a String ALIAS upper(e)) ENGINE = MergeTree ORDER BY id",
		"CREATE VIEW seen AS SELECT id FROM pages",
		"CREATE MATERIALIZED VIEW mv ENGINE = MergeTree ORDER BY id AS SELECT id FROM pages",
	)
	r.run(t)
	c := r.awaitLoaded(t)
	require.NotNil(t, c.Zone)
	var names []string
	for _, table := range c.Tables() {
		names = append(names, table.Name+" "+table.Engine)
	}
	require.Equal(t, []string{"mv MaterializedView", "pages MergeTree", "seen View"}, names)

	pages, ok := c.Table("pages")
	require.True(t, ok)
	kinds := map[string]string{}
	for i, column := range pages.Columns {
		require.Equal(t, i+1, column.Position)
		kinds[column.Name] = column.Type + " " + string(column.DefaultKind)
	}
	require.Equal(t, map[string]string{
		"id": "UInt64 ", "odd name": "Nullable(String) ", "at": "DateTime DEFAULT", "day": "Date MATERIALIZED",
		"e": "String EPHEMERAL", "a": "String ALIAS",
	}, kinds)
	require.Equal(t, "why", pages.Columns[1].Comment)
	require.NotNil(t, pages.Record)
	_, ok = c.Table("Pages")
	require.False(t, ok, "names match exactly")
}

func TestRetriesUntilClickHouseAnswers(t *testing.T) {
	r := newRig(t, false)
	r.proxy.Refuse()
	r.run(t)
	require.Eventually(t, func() bool { return r.Pending()[tenant.Default] != nil }, 30*time.Second, 5*time.Millisecond)
	require.False(t, r.FirstLoaded())
	_, err := r.Status(tenant.Default)
	require.ErrorContains(t, err, "cannot reach ClickHouse at "+r.proxy.Addr()+" (clickhouse.addr of tenant "+tenant.Default.String()+"): connect: ")
	r.proxy.Pass(t)
	require.Eventually(t, func() bool {
		r.clock.advance(time.Second)
		r.poke()
		return r.FirstLoaded()
	}, time.Minute, 10*time.Millisecond)
	require.Empty(t, r.Pending())

	// A failure later keeps what is known.
	r.proxy.Refuse()
	require.Error(t, r.Refresh(t.Context(), tenant.Default))
	_, loaded := r.Catalogue(tenant.Default)
	require.True(t, loaded)
	require.True(t, r.FirstLoaded())
}

func TestEarlyRefreshFindsANewTableOncePerInterval(t *testing.T) {
	r := newRig(t, true)
	first := r.awaitLoaded(t)
	r.clock.stop() // else a slow server has it be long enough
	r.server.Exec(t, "CREATE TABLE one (id UInt8) ENGINE = MergeTree ORDER BY id")
	c, err := r.RefreshEarly(t.Context(), tenant.Default)
	require.NoError(t, err)
	_, ok := c.Table("one")
	require.True(t, ok)
	_, ok = first.Table("one")
	require.False(t, ok, "a catalogue never changes")

	for range earlyBurst - 1 {
		_, err = r.RefreshEarly(t.Context(), tenant.Default)
		require.NoError(t, err)
	}
	r.server.Exec(t, "CREATE TABLE two (id UInt8) ENGINE = MergeTree ORDER BY id")
	c, err = r.RefreshEarly(t.Context(), tenant.Default)
	require.NoError(t, err)
	_, ok = c.Table("two")
	require.False(t, ok, "too soon")
	r.clock.advance(earlyBurst*5*time.Second + time.Second)
	c, err = r.RefreshEarly(t.Context(), tenant.Default)
	require.NoError(t, err)
	two, ok := c.Table("two")
	require.True(t, ok)

	// What has not changed is not compiled again.
	one, _ := c.Table("one")
	require.NoError(t, r.Refresh(t.Context(), tenant.Default))
	c, _ = r.Catalogue(tenant.Default)
	same, _ := c.Table("one")
	require.Same(t, one, same)
	r.server.Exec(t, "ALTER TABLE two ADD COLUMN more String")
	require.NoError(t, r.Refresh(t.Context(), tenant.Default))
	c, _ = r.Catalogue(tenant.Default)
	changed, _ := c.Table("two")
	require.NotSame(t, two, changed)
	require.Len(t, changed.Columns, 2)
}

func TestRefreshSeesWhatWasThereWhenItWasCalled(t *testing.T) {
	r := newRig(t, true)
	r.awaitLoaded(t)
	var wait sync.WaitGroup
	errs := make(chan error, 20)
	for i := range 20 {
		wait.Go(func() {
			name := fmt.Sprintf("t%d", i)
			if _, err := r.server.Try("CREATE TABLE " + name + " (id UInt8) ENGINE = MergeTree ORDER BY id"); err != nil {
				errs <- err
				return
			}
			if err := r.Refresh(t.Context(), tenant.Default); err != nil {
				errs <- err
				return
			}
			c, _ := r.Catalogue(tenant.Default)
			if _, ok := c.Table(name); !ok {
				errs <- errors.New(name + " is not known after a refresh")
			}
		})
	}
	wait.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
}

func TestScheduledRefreshFollowsTheInterval(t *testing.T) {
	r := newRig(t, true)
	r.awaitLoaded(t)
	r.server.Exec(t, "CREATE TABLE later (id UInt8) ENGINE = MergeTree ORDER BY id")
	r.clock.advance(time.Hour + time.Second)
	r.poke()
	require.Eventually(t, func() bool {
		c, _ := r.Catalogue(tenant.Default)
		_, ok := c.Table("later")
		return ok
	}, 30*time.Second, 5*time.Millisecond)
	age, err := r.Status(tenant.Default)
	require.NoError(t, err)
	require.Less(t, age, time.Minute)
}

func TestReconcileForgetsAndRepoints(t *testing.T) {
	r := newRig(t, true)
	r.server.Exec(t, "CREATE TABLE here (id UInt8) ENGINE = MergeTree ORDER BY id")
	r.awaitLoaded(t)
	r.Reconcile(map[tenant.ID]Spec{tenant.Default: {RefreshInterval: time.Minute}})
	_, loaded := r.Catalogue(tenant.Default)
	require.True(t, loaded, "the same pool keeps its catalogue")

	r.point(tenant.Default, "system")
	r.Reconcile(map[tenant.ID]Spec{tenant.Default: {RefreshInterval: time.Minute}})
	if c, loaded := r.Catalogue(tenant.Default); loaded {
		_, ok := c.Table("here")
		require.False(t, ok, "another database's tables are not this one's")
	}
	c := r.awaitLoaded(t)
	_, ok := c.Table("one")
	require.True(t, ok, "system.one")

	r.Reconcile(nil)
	_, loaded = r.Catalogue(tenant.Default)
	require.False(t, loaded)
	require.Error(t, r.Refresh(t.Context(), tenant.Default))
	_, err := r.RefreshEarly(t.Context(), tenant.Default)
	require.Error(t, err)
	age, err := r.Status(tenant.Default)
	require.NoError(t, err)
	require.Zero(t, age)
	require.True(t, r.FirstLoaded(), "for the life of the process")
}

func TestNothingIsDiscoveredBeforeRun(t *testing.T) {
	r := newRig(t, false)
	r.Reconcile(map[tenant.ID]Spec{tenant.Default: {RefreshInterval: time.Minute}})
	require.ErrorIs(t, r.Refresh(t.Context(), tenant.Default), errStopped)
}

func TestAWaiterMayLeave(t *testing.T) {
	// Somebody who accepts and never answers.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	r := &rig{clock: &clock{}, pools: clickhouse.NewPools(clickhouse.Options{})}
	defer func() { r.pools.Close(context.Background()) }()
	r.pools.Reconcile(map[tenant.ID]clickhouse.Config{tenant.Default: {
		Addr: "127.0.0.1", HTTPScheme: "http", HTTPPort: silent.Addr().(*net.TCPAddr).Port, Database: "default", Username: "default", QueryTimeout: time.Minute,
	}})
	r.Store = New(Options{Pools: r.pools, Now: r.clock.now})
	r.run(t)
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		err = r.Refresh(ctx, tenant.Default)
		return !errors.Is(err, errStopped)
	}, 30*time.Second, time.Millisecond)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
