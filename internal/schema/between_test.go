package schema

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// A table that goes between the question for tables and the one for columns is
// unknown: it is not one that no field of a record belongs to.
func TestATableThatGoesDuringADiscoveryIsUnknown(t *testing.T) {
	server := clickhousetest.Start(t)
	server.Exec(t,
		"CREATE TABLE stays (id UInt64) ENGINE = MergeTree ORDER BY id",
		"CREATE TABLE goes (id UInt64) ENGINE = MergeTree ORDER BY id",
	)
	var asked atomic.Int32
	forward := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: server.HTTPAddr()})
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 3 { // the zone, tables, columns
			server.Exec(t, "RENAME TABLE goes TO gone")
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	at, err := url.Parse(proxy.URL)
	require.NoError(t, err)
	port, err := strconv.Atoi(at.Port())
	require.NoError(t, err)
	pools := clickhouse.NewPools(clickhouse.Options{})
	t.Cleanup(func() { pools.Close(context.Background()) })
	pools.Reconcile(map[tenant.ID]clickhouse.Config{tenant.Default: {
		Addr: at.Hostname(), Source: "clickhouse.addr", HTTPScheme: "http", HTTPPort: port,
		Database: server.Database, Username: "default", QueryTimeout: 10 * time.Second,
	}})

	found, err := Discover(t.Context(), pools, tenant.Default)
	require.NoError(t, err)
	require.EqualValues(t, 3, asked.Load())
	_, known := found.Table("goes")
	require.False(t, known)
	_, known = found.Table("stays")
	require.True(t, known)
}
