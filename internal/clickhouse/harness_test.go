package clickhouse_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// configOf is a tenant's settings for the test's database on s.
func configOf(s *clickhousetest.Server) clickhouse.Config {
	return clickhouse.Config{
		Addr: s.Host, HTTPScheme: "http", HTTPPort: s.HTTPPort, Database: s.Database,
		Username: "default", QueryTimeout: 30 * time.Second, MaxOpenConns: 4, MaxIdleConns: 2,
	}
}

// poolOf makes the one pool of a set of its own.
func poolOf(t *testing.T, c clickhouse.Config) *clickhouse.Pool {
	t.Helper()
	pools := clickhouse.NewPools(clickhouse.Options{})
	t.Cleanup(func() { pools.Close(canceled()) })
	require.Empty(t, pools.Reconcile(map[tenant.ID]clickhouse.Config{tenant.Default: c}))
	pool, err := pools.Get(tenant.Default)
	require.NoError(t, err)
	return pool
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// behind is a pool whose HTTP goes through a proxy.
func behind(t *testing.T, s *clickhousetest.Server, change ...func(*clickhouse.Config)) (*clickhouse.Pool, *clickhousetest.FaultProxy) {
	t.Helper()
	proxy := clickhousetest.NewFaultProxy(t, s.HTTPAddr())
	c := configOf(s)
	c.HTTPPort = proxy.Port()
	for _, f := range change {
		f(&c)
	}
	return poolOf(t, c), proxy
}

// read runs q and reads its answer to the end.
func read(t *testing.T, pool *clickhouse.Pool, q clickhouse.Request) (string, error) {
	t.Helper()
	resp, err := pool.Query(t.Context(), q)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

func asError(t *testing.T, err error) *clickhouse.Error {
	t.Helper()
	var e *clickhouse.Error
	require.Truef(t, errors.As(err, &e), "want an *Error, got %T: %v", err, err)
	return e
}

// stub is a pool over something that answers as it is told.
func stub(t *testing.T, handle http.HandlerFunc) *clickhouse.Pool {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	at, err := netip.ParseAddrPort(server.Listener.Addr().String())
	require.NoError(t, err)
	return poolOf(t, clickhouse.Config{
		Addr: at.Addr().String(), HTTPPort: int(at.Port()), Database: "d", Source: "clickhouse.addr of tenant birch",
	})
}
