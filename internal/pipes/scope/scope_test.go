package scope_test

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
	"github.com/wavehouse/wavehouse/internal/pipes"
	"github.com/wavehouse/wavehouse/internal/pipes/lineage"
	"github.com/wavehouse/wavehouse/internal/pipes/scope"
	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/query"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/schema"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// caller is one role over the tables of a database.
type caller struct {
	t       *testing.T
	pool    *clickhouse.Pool
	lineage *lineage.Lineage
	tables  map[string]*schema.Table
	grants  map[string]policy.SelectDocument
}

func newCaller(t *testing.T, grants map[string]policy.SelectDocument, statements ...string) *caller {
	t.Helper()
	server := clickhousetest.Start(t)
	server.Exec(t, statements...)
	pools := clickhouse.NewPools(clickhouse.Options{})
	t.Cleanup(func() { pools.Close(t.Context()) })
	require.Empty(t, pools.Reconcile(map[tenant.ID]clickhouse.Config{tenant.Default: {
		Addr: server.Host, HTTPPort: server.HTTPPort, Database: server.Database, Username: "default", QueryTimeout: time.Minute,
	}}))
	pool, err := pools.Get(tenant.Default)
	require.NoError(t, err)
	c := &caller{t: t, pool: pool, lineage: lineage.New(lineage.Options{}), tables: map[string]*schema.Table{}, grants: grants}
	for _, row := range server.Rows(t, "SELECT t.name, t.engine, c.name, c.type, c.default_kind FROM system.tables AS t JOIN system.columns AS c ON c.database = t.database AND c.table = t.name"+
		" WHERE t.database = currentDatabase() ORDER BY t.name, c.position") {
		table := c.tables[row[0]]
		if table == nil {
			table = &schema.Table{Name: row[0], Engine: row[1]}
			c.tables[row[0]] = table
		}
		table.Columns = append(table.Columns, record.Column{Name: row[2], Type: row[3], Position: len(table.Columns) + 1, DefaultKind: record.DefaultKind(row[4])})
	}
	for _, table := range c.tables {
		table.Record = record.Compile(table.Name, table.Columns, time.UTC)
	}
	return c
}

func (c *caller) see(name string) (*schema.Table, *policy.BoundSelect, error) {
	table := c.tables[name]
	if table == nil {
		return nil, nil, nil
	}
	rule, granted := c.grants[name]
	if !granted {
		return nil, nil, policy.ErrNoGrant
	}
	p, faults, _ := policy.Compile(&policy.Document{Tables: map[string]policy.TableDocument{name: {"viewer": {Select: &rule}}}}, []string{"viewer"})
	require.Empty(c.t, faults)
	grant, err := p.Select("viewer", name)
	require.NoError(c.t, err)
	return table, grant.Bind(nil, table.Record), nil
}

// run answers a statement as the caller may see it.
func (c *caller) run(sql string) (answer string, narrowed *scope.Statement, err error) {
	narrowed, err = scope.Narrow(c.t.Context(), c.pool, c.lineage, &pipes.Statement{SQL: sql, Shape: sql}, c.see)
	if err != nil {
		return "", nil, err
	}
	request := clickhouse.Request{SQL: narrowed.SQL, Params: narrowed.Params, Settings: query.ReadSettings(query.FormatJSON, false), External: narrowed.External, ReadOnly: true}
	maps.Copy(request.Settings, narrowed.Settings)
	if err := narrowed.Verify(c.t.Context(), c.pool, request); err != nil {
		return "", narrowed, err
	}
	response, err := c.pool.Query(c.t.Context(), request)
	if err != nil {
		return "", narrowed, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := response.ReadAll()
	return strings.Join(strings.Fields(string(text)), ""), narrowed, err
}

func TestAStatementIsNarrowedToItsCallersGrants(t *testing.T) {
	c := newCaller(t, map[string]policy.SelectDocument{
		"events": {DenyColumns: []string{"secret"}, Filter: json.RawMessage(`{"org":{"_in":["a","c"]}}`), MaxRows: 7, MaxExecutionTime: 5 * time.Second},
		"orgs":   {MaxRows: 2, MaxExecutionTime: 9 * time.Second, DeniedAggregations: []string{"max"}},
		"totals": {AllowColumns: []string{"org"}}, "over": {}, "whole": {DenyColumns: []string{"org", "c"}}, "ruled": {Filter: json.RawMessage(`{"org":{"_eq":"a"}}`)}, "held": {}, "foreign": {}, "set": {}, "definer": {},
	},
		"CREATE TABLE events (id UInt64, org String, secret String) ENGINE = MergeTree ORDER BY id", "CREATE TABLE orgs (org String) ENGINE = MergeTree ORDER BY org",
		"CREATE TABLE hidden (id UInt64) ENGINE = MergeTree ORDER BY id", "CREATE TABLE held (id UInt64) ENGINE = Memory",
		"CREATE VIEW totals AS SELECT org, count() AS c FROM events GROUP BY org", "CREATE VIEW over AS SELECT org FROM totals", "CREATE VIEW whole AS SELECT org, c FROM totals",
		"CREATE VIEW ruled AS SELECT org FROM orgs", "CREATE VIEW foreign AS SELECT name FROM system.tables", "CREATE VIEW set AS SELECT org FROM orgs SETTINGS max_threads = 1",
		"CREATE VIEW definer DEFINER = default SQL SECURITY DEFINER AS SELECT org FROM orgs",
		"INSERT INTO events SELECT number, ['a', 'b', 'c'][number % 3 + 1], 'x' FROM numbers(30)", "INSERT INTO orgs VALUES ('a'), ('b'), ('c')", "INSERT INTO hidden VALUES (1)")

	for sql, want := range map[string]string{
		"SELECT count() AS c FROM events":          `[{"c":20}]`,
		"SELECT * FROM events ORDER BY id LIMIT 1": `[{"id":0,"org":"a"}]`,
		"SELECT org FROM orgs ORDER BY org DESC":   `[{"org":"c"},{"org":"b"}]`,
		"SELECT org FROM over ORDER BY org":        `[{"org":"a"},{"org":"c"}]`,
		"SELECT o.org, count() AS c FROM orgs AS o LEFT JOIN events AS e USING (org) GROUP BY o.org ORDER BY o.org": `[{"org":"a","c":10},{"org":"b","c":1}]`,
		"SELECT wh_seen0 FROM (SELECT 1 AS wh_seen0)":                                                               `[{"wh_seen0":1}]`,
	} {
		got, _, err := c.run(sql)
		require.NoError(t, err, sql)
		assert.Equal(t, want, got, sql)
	}
	_, narrowed, err := c.run("SELECT 1 AS x FROM events, orgs LIMIT 1")
	require.NoError(t, err)
	assert.Equal(t, "5", narrowed.Settings["max_execution_time"], "the least of the grants")
	assert.Equal(t, "0", narrowed.Settings["use_skip_indexes"])
	_, other, err := c.run("SELECT 1 AS x FROM orgs LIMIT 1")
	require.NoError(t, err)
	assert.NotEqual(t, narrowed.Fingerprint, other.Fingerprint)
	assert.NotContains(t, other.Settings, "use_skip_indexes")

	for sql, why := range map[string]string{
		"SELECT id FROM hidden": "no such grant", "SELECT secret FROM events": "secret", "SELECT c FROM totals": "c", "SELECT * FROM whole": "no column", "SELECT org FROM ruled": "row filter",
		"SELECT id FROM held": "Memory", "SELECT name FROM foreign": "another database", "SELECT org FROM set": "SETTINGS", "SELECT org FROM definer": "rights of another user",
		"SELECT max(org) AS m FROM orgs": "max", "SELECT arrayReduce('max', [1]) AS m FROM orgs": "arrayReduce", "SELECT (": "parsed", "SHOW TABLES": "SELECT of tables",
		"SELECT id FROM " + c.pool.Database() + ".events": "database", "SELECT 1 FROM merge(currentDatabase(), 'x')": "merge", "SELECT dictGet('d', 'v', 1)": "dictGet",
		"SELECT id FROM events FINAL": "FINAL", "SELECT '" + strings.Repeat("x", 251<<10) + "' AS s FROM orgs": "longer",
	} {
		_, _, err := c.run(sql)
		var denied *scope.Denied
		require.ErrorAs(t, err, &denied, "%.200s", sql)
		assert.ErrorContains(t, err, why, "%.200s", sql)
	}
}

// What ClickHouse cannot be asked is no refusal of the caller.
func TestWithoutClickHouseNobodyIsRefused(t *testing.T) {
	pools := clickhouse.NewPools(clickhouse.Options{})
	t.Cleanup(func() { pools.Close(t.Context()) })
	require.Empty(t, pools.Reconcile(map[tenant.ID]clickhouse.Config{tenant.Default: {Addr: "127.0.0.1:1", HTTPPort: 1, Database: "d", Username: "default"}}))
	pool, err := pools.Get(tenant.Default)
	require.NoError(t, err)
	_, err = scope.Narrow(t.Context(), pool, lineage.New(lineage.Options{}), &pipes.Statement{SQL: "SELECT 1", Shape: "SELECT 1"}, nil)
	var denied *scope.Denied
	require.Error(t, err)
	assert.False(t, errors.As(err, &denied))
}
