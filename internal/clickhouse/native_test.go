package clickhouse_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
)

// TestTheNativeProtocol has a server of its own: the engine does not survive
// every end of a native connection.
func TestTheNativeProtocol(t *testing.T) {
	s := clickhousetest.StartNative(t)
	proxy := clickhousetest.NewTCPProxy(t, s.NativeAddr)
	c := configOf(s)
	c.Addr, c.Native = proxy.Addr(), true
	pool := poolOf(t, c)
	require.Equal(t, proxy.Addr()+"/"+s.Database, pool.Name())

	t.Run("questions", func(t *testing.T) { testQuestions(t, s, pool) })
	t.Run("statements go over HTTP", func(t *testing.T) {
		got, err := read(t, pool, clickhouse.Request{SQL: "SELECT 1"})
		require.NoError(t, err)
		require.Equal(t, "1\n", got)
	})
	t.Run("a server that is away", func(t *testing.T) {
		proxy.Refuse()
		err := pool.Ping(t.Context())
		require.ErrorIs(t, err, clickhouse.ErrAway)
		require.ErrorContains(t, err, "cannot reach ClickHouse at "+proxy.Addr())
		require.Equal(t, clickhouse.ClassUnavailable, clickhouse.Classify(err))
	})
	t.Run("a server that accepts and says nothing", func(t *testing.T) {
		proxy.Pass(t)
		proxy.Hang()
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		begun := time.Now()
		require.ErrorIs(t, pool.Ping(ctx), clickhouse.ErrAway)
		require.Less(t, time.Since(begun), 8*time.Second, "with the context, not with the driver's 10 s")
	})
}

// TestTheNativePortHasItsUsualDefault asks where nobody listens.
func TestTheNativePortHasItsUsualDefault(t *testing.T) {
	for secure, want := range map[bool]string{false: "[::1]:9000/d", true: "[::1]:9440/d"} {
		pool := poolOf(t, clickhouse.Config{Addr: "::1", Native: true, Database: "d", TLS: clickhouse.TLS{Enabled: secure}})
		require.Equal(t, want, pool.Name())
	}
}
