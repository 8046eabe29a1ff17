package query_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
	"github.com/wavehouse/wavehouse/internal/query"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/schema"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// engine is a database of a real ClickHouse, reached as the server reaches it.
type engine struct {
	*clickhousetest.Server
	pool *clickhouse.Pool
}

func startEngine(t *testing.T) *engine {
	t.Helper()
	server := clickhousetest.Start(t)
	pools := clickhouse.NewPools(clickhouse.Options{})
	t.Cleanup(func() { pools.Close(context.Background()) })
	faults := pools.Reconcile(map[tenant.ID]clickhouse.Config{tenant.Default: {
		Addr: server.Host, HTTPScheme: "http", HTTPPort: server.HTTPPort,
		Database: server.Database, Username: "default", QueryTimeout: time.Minute,
	}})
	require.Empty(t, faults)
	pool, err := pools.Get(tenant.Default)
	require.NoError(t, err)
	return &engine{Server: server, pool: pool}
}

// run sends a statement and returns the whole answer.
func (e *engine) run(t *testing.T, s *query.Statement) (string, error) {
	t.Helper()
	response, err := e.pool.Query(t.Context(), clickhouse.Request{
		SQL: s.SQL, Params: s.Params, Settings: s.Settings, External: s.External,
		ReadOnly: true, MaxResponseBytes: 64 << 20,
	})
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(response.Body)
	if closed := response.Body.Close(); err == nil {
		err = closed
	}
	return string(text), err
}

// describe reads a table's columns as the schema discovery does.
func (e *engine) describe(t *testing.T, table string) *schema.Table {
	t.Helper()
	s := &schema.Table{Name: table}
	for i, row := range e.Rows(t, "SELECT name, type, default_kind, default_expression FROM system.columns"+
		" WHERE database = currentDatabase() AND table = "+clickhouse.QuoteString(table)+" ORDER BY position") {
		s.Columns = append(s.Columns, record.Column{
			Name: row[0], Type: row[1], Position: i + 1,
			DefaultKind: record.DefaultKind(row[2]), DefaultExpression: row[3],
		})
	}
	require.NotEmpty(t, s.Columns)
	s.Record = record.Compile(table, s.Columns, time.UTC)
	return s
}
