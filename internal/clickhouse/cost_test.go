package clickhouse_test

import (
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// many are n tenants with a database each.
func many(n, open int) tenants {
	all := tenants{}
	for i := range n {
		all[tenant.ID(fmt.Sprintf("t%04d", i))] = somewhere(fmt.Sprintf("d%04d", i), open, time.Second)
	}
	return all
}

func TestAPoolNobodyUsesCostsNoGoroutine(t *testing.T) {
	p := clickhouse.NewPools(clickhouse.Options{})
	t.Cleanup(func() { p.Close(canceled()) })
	before := runtime.NumGoroutine()
	require.Empty(t, p.Reconcile(many(1000, 10)))
	require.Less(t, runtime.NumGoroutine(), before+10)
	require.Equal(t, 1, p.Secured(), "TLS settings are shared")
}

func TestFitsNamesTheSumAndTheCeiling(t *testing.T) {
	p := clickhouse.NewPools(clickhouse.Options{MaxTotalConns: 240})
	require.NoError(t, p.Fits(many(10, 10)))
	err := p.Fits(many(11, 10))
	require.ErrorIs(t, err, clickhouse.ErrOverCeiling)
	require.ErrorContains(t, err, "264", "ten statements, ten INSERTs and four questions each")
	require.ErrorContains(t, err, "240")
	shared := tenants{"a": somewhere("one", 60, 0), "b": somewhere("one", 100, 0), "c": somewhere("one", 100, 0)}
	require.NoError(t, p.Fits(shared), "a shared pool counts once")
	require.NoError(t, clickhouse.NewPools(clickhouse.Options{}).Fits(many(1000, 10)), "no ceiling")
}

// The connections stay under the ceiling whatever tenants ask for, and in whatever
// order; who asks for nothing new is never refused.
func TestManyTenantsUnderTheCeiling(t *testing.T) {
	const ceiling = 14_000 // of 1,000 pools for five
	p := clickhouse.NewPools(clickhouse.Options{MaxTotalConns: ceiling, AfterFunc: (&later{}).after})
	want := many(1000, 5)
	require.Empty(t, p.Reconcile(want))
	for i := range 10 {
		id := tenant.ID(fmt.Sprintf("t%04d", i))
		want[id] = somewhere(fmt.Sprintf("d%04d", i), 6, time.Second)
	}
	want["t0500"] = somewhere("d0501", 5, time.Second) // frees its own
	refused := p.Reconcile(want)
	require.Len(t, refused, 3)
	sum, seen := 0, map[any]bool{}
	for id := range want {
		pool, err := p.Get(id)
		require.NoError(t, err, "who had a pool keeps one")
		if !seen[pool.Connections()] {
			seen[pool.Connections()] = true
			sum += clickhouse.InAll(pool.MaxOpenConns())
		}
	}
	require.LessOrEqual(t, sum, ceiling)
}

func TestTLSFilesAreReadAgainWhenTheyChange(t *testing.T) {
	p := clickhouse.NewPools(clickhouse.Options{AfterFunc: (&later{}).after})
	file := filepath.Join(t.TempDir(), "ca.pem")
	c := somewhere("a", 1, 0)
	c.TLS = clickhouse.TLS{Enabled: true, CAFile: file}
	require.NoError(t, os.WriteFile(file, []byte("not yet"), 0o600))
	require.ErrorContains(t, p.Reconcile(tenants{"a": c})["a"], "no certificate")
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(t, os.WriteFile(file, certificate, 0o600))
	require.Empty(t, p.Reconcile(tenants{"a": c}))
	first, _ := p.Get("a")
	require.Empty(t, p.Reconcile(tenants{"a": c}))
	same, _ := p.Get("a")
	require.Same(t, first, same, "unchanged settings and files keep the pool")
	require.NoError(t, os.WriteFile(file, append(certificate, certificate...), 0o600))
	require.Empty(t, p.Reconcile(tenants{"a": c}))
	renewed, _ := p.Get("a")
	require.NotSame(t, first.Connections(), renewed.Connections())
}

func TestAPasswordChangeRepointsItsTenantAlone(t *testing.T) {
	p := clickhouse.NewPools(clickhouse.Options{AfterFunc: (&later{}).after})
	a, b, c := somewhere("a", 1, 0), somewhere("a", 1, 0), somewhere("a", 1, 0)
	c.Username = "v"
	require.Empty(t, p.Reconcile(tenants{"a": a, "b": b, "c": c}))
	poolA, _ := p.Get("a")
	poolB, _ := p.Get("b")
	poolC, _ := p.Get("c")
	require.Same(t, poolA.Connections(), poolB.Connections())
	require.NotSame(t, poolA.Connections(), poolC.Connections(), "another user, other connections")
	require.NotEqual(t, poolA.Session(), poolC.Session())
	a.Password = "new"
	require.Empty(t, p.Reconcile(tenants{"a": a, "b": b, "c": c}))
	movedA, _ := p.Get("a")
	keptB, _ := p.Get("b")
	keptC, _ := p.Get("c")
	require.NotSame(t, poolA.Connections(), movedA.Connections())
	require.Same(t, poolB, keptB)
	require.Same(t, poolC, keptC)
	require.Equal(t, poolA.Session(), movedA.Session(), "no password in it")
	require.Equal(t, poolA.Source(), keptB.Source())
	require.NotEqual(t, poolA.Source(), movedA.Source())
	b.Headers = map[string]string{"X-Route": "two"}
	require.Empty(t, p.Reconcile(tenants{"a": a, "b": b, "c": c}))
	routedB, _ := p.Get("b")
	require.NotEqual(t, keptB.Source(), routedB.Source(), "a proxy may tell tenants apart by a header")
}
