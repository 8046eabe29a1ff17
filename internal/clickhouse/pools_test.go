package clickhouse_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

type tenants = map[tenant.ID]clickhouse.Config

// later collects what is to be run after a while.
type later struct {
	mu    sync.Mutex
	waits []time.Duration
	funcs []func()
}

func (l *later) after(d time.Duration, f func()) func() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waits, l.funcs = append(l.waits, d), append(l.funcs, f)
	return func() bool { return true }
}

func (l *later) run() {
	l.mu.Lock()
	funcs := l.funcs
	l.funcs = nil
	l.mu.Unlock()
	for _, f := range funcs {
		f()
	}
}

func somewhere(database string, open int, timeout time.Duration) clickhouse.Config {
	return clickhouse.Config{Addr: "127.0.0.1:1", HTTPPort: 1, Database: database, Username: "u", MaxOpenConns: open, QueryTimeout: timeout}
}

func size(t *testing.T, p *clickhouse.Pools, id tenant.ID) int {
	t.Helper()
	pool, err := p.Get(id)
	require.NoError(t, err)
	return pool.MaxOpenConns()
}

func TestTenantsThatNameTheSameServerShareAPool(t *testing.T) {
	l := &later{}
	p := clickhouse.NewPools(clickhouse.Options{AfterFunc: l.after, Metrics: prometheus.NewRegistry()})
	b := somewhere("shared", 7, time.Minute)
	b.Addr, b.Headers = "127.0.0.1:9000", map[string]string{"A": "b"} // a port that is not used
	require.Empty(t, p.Reconcile(tenants{"a": somewhere("shared", 3, time.Second), "b": b, "c": somewhere("other", 2, time.Second)}))
	poolA, _ := p.Get("a")
	poolB, _ := p.Get("b")
	poolC, _ := p.Get("c")
	require.Same(t, poolA.Connections(), poolB.Connections())
	require.NotSame(t, poolA.Connections(), poolC.Connections())
	require.Equal(t, 7, poolA.MaxOpenConns(), "sized to the largest ask")
	require.Equal(t, []time.Duration{time.Second, time.Minute}, []time.Duration{poolA.QueryTimeout(), poolB.QueryTimeout()})
	require.Equal(t, "127.0.0.1:1/shared", poolA.Name())
	require.Equal(t, "shared", poolA.Database())
	_, err := p.Get("nobody")
	require.ErrorIs(t, err, clickhouse.ErrNoPool)

	// The same again changes nothing.
	require.Empty(t, p.Reconcile(tenants{"a": somewhere("shared", 3, time.Second), "b": b, "c": somewhere("other", 2, time.Second)}))
	again, _ := p.Get("a")
	require.Same(t, poolA.Connections(), again.Connections())
	require.Empty(t, l.waits)

	// The largest ask leaves: a smaller pool, the old one after the longest timeout.
	require.Empty(t, p.Reconcile(tenants{"a": somewhere("shared", 3, time.Second), "c": somewhere("other", 2, time.Second)}))
	require.Equal(t, 3, size(t, p, "a"))
	require.Equal(t, []time.Duration{time.Minute}, l.waits)
	l.run()
	_, err = poolB.Query(context.Background(), clickhouse.Request{SQL: "SELECT 1"})
	require.Equal(t, clickhouse.ClassUnavailable, clickhouse.Classify(err))
	require.Contains(t, err.Error(), "closed")
	p.Close(context.Background())
	require.Nil(t, p.Reconcile(tenants{"a": somewhere("x", 1, 0)}))
	_, err = p.Get("a")
	require.ErrorIs(t, err, clickhouse.ErrNoPool, "closed for good")
}

func TestTheCeilingAtBoot(t *testing.T) {
	p := clickhouse.NewPools(clickhouse.Options{MaxTotalConns: 20})
	refused := p.Reconcile(tenants{"a": somewhere("a", 6, 0), "b": somewhere("b", 6, 0)})
	require.Len(t, refused, 1)
	require.ErrorIs(t, refused["b"], clickhouse.ErrOverCeiling)
	require.Contains(t, refused["b"].Error(), "32")
	require.Contains(t, refused["b"].Error(), "20")
	_, err := p.Get("b")
	require.ErrorIs(t, err, clickhouse.ErrNoPool)
	require.ErrorIs(t, err, clickhouse.ErrOverCeiling)
	require.Equal(t, 503, clickhouse.ReadVerdict(err).Status)
}

func TestTheCeilingOnAReload(t *testing.T) {
	p := clickhouse.NewPools(clickhouse.Options{MaxTotalConns: 28, AfterFunc: (&later{}).after})
	require.Empty(t, p.Reconcile(tenants{"a": somewhere("a", 5, 0), "b": somewhere("b", 5, 0)}))

	refused := p.Reconcile(tenants{"a": somewhere("a", 9, 0), "b": somewhere("b", 5, 0)})
	require.ErrorIs(t, refused["a"], clickhouse.ErrOverCeiling)
	require.Equal(t, 5, size(t, p, "a"), "the offender keeps the pool it had")

	require.Empty(t, p.Reconcile(tenants{"a": somewhere("a", 9, 0)}), "who leaves makes room first")
	require.Equal(t, 9, size(t, p, "a"))

	require.Empty(t, p.Reconcile(tenants{"a": somewhere("a", 2, 0), "b": somewhere("b", 8, 0)}), "who shrinks makes room, whatever the order")
	require.Empty(t, p.Reconcile(tenants{"a": somewhere("a", 8, 0), "b": somewhere("b", 2, 0)}))
	require.Equal(t, []int{8, 2}, []int{size(t, p, "a"), size(t, p, "b")})

	refused = p.Reconcile(tenants{"a": somewhere("a", 8, 0), "b": somewhere("b", 2, 0), "c": somewhere("c", 1, 0)})
	require.Len(t, refused, 1)
	_, err := p.Get("c")
	require.ErrorIs(t, err, clickhouse.ErrNoPool)
	require.Empty(t, p.Reconcile(tenants{"a": somewhere("a", 8, 0), "c": somewhere("a", 8, 0)}), "sharing costs nothing")
}

func TestAFileThatCannotBeReadIsItsTenantsFault(t *testing.T) {
	p := clickhouse.NewPools(clickhouse.Options{AfterFunc: (&later{}).after})
	bad := somewhere("a", 1, 0)
	bad.TLS = clickhouse.TLS{Enabled: true, CAFile: filepath.Join(t.TempDir(), "none.pem")}
	refused := p.Reconcile(tenants{"a": bad, "b": somewhere("b", 1, 0)})
	require.ErrorIs(t, refused["a"], os.ErrNotExist)
	require.Len(t, refused, 1)
	_, err := p.Get("a")
	require.ErrorIs(t, err, clickhouse.ErrNoPool)
	_, err = p.Get("b")
	require.NoError(t, err)

	require.Empty(t, p.Reconcile(tenants{"a": somewhere("a", 1, 0)}))
	had, _ := p.Get("a")
	require.Len(t, p.Reconcile(tenants{"a": bad}), 1)
	kept, err := p.Get("a")
	require.NoError(t, err)
	require.Same(t, had.Connections(), kept.Connections())
	bad.TLS = clickhouse.TLS{Enabled: true, CAFile: filepath.Join(t.TempDir(), "x")}
	require.NoError(t, os.WriteFile(bad.TLS.CAFile, []byte("not a certificate"), 0o600))
	require.ErrorContains(t, p.Reconcile(tenants{"a": bad})["a"], "no certificate")
	bad.TLS = clickhouse.TLS{Enabled: true, CertFile: "/nonexistent/c", KeyFile: "/nonexistent/k"}
	require.ErrorContains(t, p.Reconcile(tenants{"a": bad})["a"], "client certificate")
}

func TestAnotherPortOrProtocolIsAnotherServer(t *testing.T) {
	p := clickhouse.NewPools(clickhouse.Options{MaxTotalConns: 3 * clickhouse.InAll(3)})
	t.Cleanup(func() { p.Close(canceled()) })
	all := tenants{"a": somewhere("d", 3, 0), "port": somewhere("d", 3, 0), "native": somewhere("d", 3, 0), "same": somewhere("d", 3, 0)}
	c := all["port"]
	c.HTTPPort = 2
	all["port"] = c
	c = all["native"]
	c.Native = true
	all["native"] = c
	require.Empty(t, p.Reconcile(all), "three pools of three")
	seen, names := map[any]bool{}, map[tenant.ID]string{}
	for id := range all {
		pool, err := p.Get(id)
		require.NoError(t, err)
		seen[pool.Connections()], names[id] = true, pool.Name()
	}
	require.Len(t, seen, 3)
	require.Equal(t, map[tenant.ID]string{"a": "127.0.0.1:1/d", "same": "127.0.0.1:1/d", "port": "127.0.0.1:2/d", "native": "127.0.0.1:1/d"}, names)
}

func TestPingSaysWhichPoolAnswers(t *testing.T) {
	t.Parallel()
	s := clickhousetest.Start(t)
	refusing, hanging := clickhousetest.NewTCPProxy(t, s.HTTPAddr()), clickhousetest.NewTCPProxy(t, s.HTTPAddr())
	refusing.Refuse()
	hanging.Hang()
	good, down, wrong, hung := configOf(s), configOf(s), configOf(s), configOf(s)
	down.HTTPPort, hung.HTTPPort = refusing.Port(), hanging.Port()
	wrong.Username, wrong.Password = clickhousetest.SecuredUser, "not-the-one"
	p := clickhouse.NewPools(clickhouse.Options{})
	t.Cleanup(func() { p.Close(canceled()) })
	require.Empty(t, p.Reconcile(tenants{"a": good, "b": down, "d": hung, "e": good}))
	require.Nil(t, p.Probe(t.Context(), time.Minute), "one that answers is enough")
	require.Empty(t, p.Reconcile(tenants{"b": down, "c": wrong, "d": hung}))
	got := p.Probe(t.Context(), 5*time.Second)
	require.Len(t, got, 3)
	require.ErrorIs(t, got[hanging.Addr()+"/"+s.Database], context.DeadlineExceeded)
	require.ErrorContains(t, got[hanging.Addr()+"/"+s.Database], "no answer from ClickHouse at "+hanging.Addr())
	require.Equal(t, clickhouse.ClassUnavailable, clickhouse.Classify(got[hanging.Addr()+"/"+s.Database]))
	require.ErrorContains(t, got[refusing.Addr()+"/"+s.Database], "cannot reach ClickHouse at "+refusing.Addr()+": connect: ")
	require.Equal(t, clickhouse.ClassUnavailable, clickhouse.Classify(got[refusing.Addr()+"/"+s.Database]))
	require.Equal(t, clickhouse.ClassDenied, clickhouse.Classify(got[s.HTTPAddr()+"/"+s.Database]))
	require.NotContains(t, got[s.HTTPAddr()+"/"+s.Database].Error(), "not-the-one")
}

func TestCloseWaitsForWhatRuns(t *testing.T) {
	s := clickhousetest.Start(t)
	p := clickhouse.NewPools(clickhouse.Options{})
	require.Empty(t, p.Reconcile(tenants{"a": configOf(s)}))
	pool, err := p.Get("a")
	require.NoError(t, err)
	held, err := pool.Query(t.Context(), clickhouse.Request{SQL: "SELECT 1"})
	require.NoError(t, err)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		p.Close(context.Background())
	}()
	require.Eventually(t, func() bool { _, err := p.Get("a"); return err != nil }, time.Minute, time.Millisecond)
	select {
	case <-closed:
		t.Fatal("closed while a statement ran")
	default:
	}
	require.NoError(t, held.Body.Close())
	<-closed
}
