package integration

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// callerPipes is a pipes.json of statements that see tables as their caller does.
func callerPipes(statements ...string) string {
	var list []string
	for i := 0; i+1 < len(statements); i += 2 {
		list = append(list, `{"name":`+quoted(statements[i])+`,"allowed_roles":["viewer","analyst","writer"],"policies":"caller","parameters":[{"name":"t","type":"string","default":"vault"}],"sql":`+quoted(statements[i+1])+`}`)
	}
	return `{"pipes":[` + strings.Join(list, ",\n") + `]}`
}

// named names statements s0, s1, …
func named(statements ...string) []string {
	var all []string
	for i, sql := range statements {
		all = append(all, fmt.Sprintf("s%d", i), sql)
	}
	return all
}

const callerPolicies = `{"tables":{
	"events":{"viewer":{"select":{"deny_columns":["secret","attrs.secret"],"filter":{"org":{"_eq":"{{ jwt.org }}"}}}},"analyst":{"select":{"allow_columns":["id"],"max_rows":3,"denied_aggregations":["max"]}}},
	"orgs":{"viewer":{"select":{}}},
	"held":{"viewer":{"select":{}}},
	"daily":{"viewer":{"select":{}},"analyst":{"select":{}}},
	"over":{"viewer":{"select":{"deny_columns":["n"]}}},
	"filtered":{"viewer":{"select":{"filter":{"org":{"_eq":"a"}}}}},
	"other":{"viewer":{"select":{}}},
	"merged":{"viewer":{"select":{}}},
	"target":{"viewer":{"select":{}}},
	"vault":{"writer":{"select":{}}}}}`

func callerServer(t *testing.T, statements ...string) *server {
	t.Helper()
	s := start(t, options{policies: callerPolicies},
		`CREATE TABLE events (id UInt64, org String, n Int64, secret String, attrs JSON, tags Array(String), share Int64 ALIAS intDiv(100, n), INDEX of_n n TYPE set(0) GRANULARITY 1) ENGINE = MergeTree ORDER BY id`,
		`CREATE TABLE orgs (org String, name String) ENGINE = MergeTree ORDER BY org`,
		`CREATE TABLE vault (id UInt64, gold String) ENGINE = MergeTree ORDER BY id`,
		`CREATE TABLE held (id UInt64) ENGINE = Memory`,
		`CREATE VIEW daily AS SELECT e.org, count() AS c FROM events AS e GROUP BY e.org`,
		`CREATE VIEW over AS SELECT org, c AS n, c + 1 AS m FROM daily`,
		`CREATE VIEW filtered AS SELECT * FROM events`,
		`CREATE VIEW other AS SELECT id FROM vault`,
		`CREATE TABLE merged (id UInt64) ENGINE = Merge(currentDatabase(), '^vault$')`,
		`CREATE TABLE target (id UInt64) ENGINE = MergeTree ORDER BY id`,
		`CREATE FUNCTION IF NOT EXISTS ofGold AS () -> (SELECT max(gold) FROM vault)`,
		`INSERT INTO events (id, org, n, secret, tags) SELECT number, if(number % 2 = 0, 'a', 'b'), number % 2 = 0, 'hidden', ['x'] FROM numbers(10)`,
		`INSERT INTO orgs VALUES ('a', 'Ash'), ('b', 'Birch')`, `INSERT INTO vault VALUES (1, 'gold')`)
	s.adopt(callerPipes(named(statements...)...))
	return s
}

func ofOrg(t *testing.T, role, org string) []string {
	t.Helper()
	return []string{"Authorization", "Bearer " + token(t, jwt.MapClaims{"role": role, "org": org})}
}

// A pipe that sees tables as its caller does answers from the rows and columns of
// the caller's grants, however it reads them.
func TestAPipeSeesTablesThroughItsCallersGrants(t *testing.T) {
	t.Parallel()
	cases := []struct{ sql, want string }{
		{`SELECT count() AS c FROM events`, `[{"c":5}]`},
		{`SELECT * EXCEPT (tags) FROM events ORDER BY id LIMIT 1`, `[{"id":0,"org":"a","n":1,"share":100}]`},
		{`SELECT (SELECT count() FROM events) AS c`, `[{"c":5}]`},
		{`SELECT count() AS c FROM numbers(10) WHERE number IN (SELECT id FROM events)`, `[{"c":5}]`},
		{`WITH events AS (SELECT id FROM events) SELECT count() AS c FROM events`, `[{"c":5}]`},
		{`WITH x AS (SELECT * FROM events) SELECT count() AS c FROM x AS a JOIN x AS b ON a.id = b.id`, `[{"c":5}]`},
		{`SELECT o.name, count() AS c FROM orgs AS o LEFT JOIN events AS e USING (org) WHERE e.n > 0 OR o.org = 'b' GROUP BY o.name ORDER BY o.name`, `[{"name":"Ash","c":5},{"name":"Birch","c":1}]`},
		{`SELECT id FROM events ORDER BY id DESC LIMIT 2 UNION ALL SELECT toUInt64(count()) FROM events`, ``},
		{`SELECT sum(intDiv(1, n)) AS s, sum(share) AS t FROM events`, `[{"s":5,"t":500}]`},
		{`SELECT count() AS c FROM events WHERE intDiv(1, n) = 1 AND share = 100`, `[{"c":5}]`},
		{`SELECT id FROM events ORDER BY intDiv(1, n), id LIMIT 1 -- the first`, `[{"id":0}]`},
		{`FROM events SELECT max(id) AS m`, `[{"m":8}]`},
		{`SELECT org, c FROM daily`, `[{"org":"a","c":5}]`},
		{`SELECT * FROM over`, `[{"org":"a","m":6}]`},
		{`SELECT t, count() AS c FROM events ARRAY JOIN tags AS t GROUP BY t`, `[{"t":"x","c":5}]`},
		{`SELECT row_number() OVER (ORDER BY id) AS r, id FROM events ORDER BY id LIMIT 1`, `[{"r":1,"id":0}]`},
		{`SELECT EXISTS(SELECT 1 FROM events WHERE org = 'b') AS e, now() > '2000-01-01 00:00:00' AS t`, `[{"e":0,"t":1}]`},
		{`SELECT arrayMap(x -> x + n, [1]) AS a FROM events LIMIT 1`, `[{"a":[2]}]`},
	}
	var statements []string
	for _, c := range cases {
		statements = append(statements, c.sql)
	}
	s := callerServer(t, statements...)
	for i, c := range cases {
		got := s.pipeRows(fmt.Sprintf("s%d", i), ofOrg(t, "viewer", "a")...)
		if c.want != "" {
			assert.Equal(t, c.want, got, c.sql)
		}
	}
	assert.Equal(t, `[{"c":0}]`, s.pipeRows("s0", ofOrg(t, "viewer", "nobody")...), "another caller has another answer, of the same pipe")
	assert.Equal(t, `[{"c":10}]`, s.pipeRows("s0", "X-Operator-Key", operatorKey))
}

// What cannot be seen through the grants is refused, and no refusal tells why.
func TestAPipeThatCannotBeSeenThroughGrantsIsRefused(t *testing.T) {
	t.Parallel()
	refusals := []string{
		`SELECT id FROM vault`, `SELECT (SELECT max(gold) FROM vault) AS g`, `SELECT 1 AS x FROM events WHERE id IN vault`,
		`SELECT id FROM events WHERE id IN (SELECT id FROM vault)`, `SELECT secret FROM events`, `SELECT count(secret) AS c FROM events`,
		`SELECT id FROM events WHERE secret = 'hidden'`, `SELECT id FROM events ORDER BY secret`, `SELECT a.id FROM events a JOIN events b USING (id, secret)`,
		`SELECT _part_offset FROM events`, `SELECT n FROM over`, `SELECT * FROM other`, `SELECT * FROM filtered`, `SELECT * FROM held`, `SELECT * FROM merged`,
		`SELECT id FROM events FINAL`, `SELECT id FROM events PREWHERE throwIf(n = 0) = 0`, `SELECT id FROM events SAMPLE 1/2`,
		`SELECT id FROM events SETTINGS max_threads = 1`, `SELECT id FROM (SELECT id FROM events SETTINGS additional_table_filters = {})`,
		`SELECT * FROM merge(currentDatabase(), 'events')`, `SELECT * FROM view(SELECT * FROM events)`, `SELECT * FROM remote('127.0.0.1', currentDatabase(), 'events')`,
		`SELECT count() AS c FROM system.tables`, `SELECT count() AS c FROM system.one`, `SELECT count() AS c FROM information_schema.tables`, `SELECT * FROM file('x.csv')`,
		`SELECT dictGet('d', 'v', id) AS v FROM events`, `SELECT joinGet('j', 'v', id) AS v FROM events`, `SELECT ofGold() AS g`, `SELECT rowNumberInAllBlocks() AS r FROM events`,
		`SELECT getSetting('param_x') AS s FROM events`, `SELECT blockNumber() AS b FROM events`, `SELECT id FROM events WHERE indexHint(id = 1)`, `SELECT hasColumnInTable('x', 'events', 'secret') AS h`,
		`SELECT runningDifference(n) AS r FROM events`, `SELECT nowhere FROM events`, `SELECT * FROM nowhere`,
		"SELECT `a\\nb` FROM events", `SELECT attrs FROM events`, `SELECT attrs.secret AS s FROM events`, `SELECT attrs.open AS s FROM events`,
	}
	s := callerServer(t, refusals...)
	statements := append([]string{}, refusals...)
	for _, name := range []string{"events", "vault"} {
		statements = append(statements, "SELECT count() AS c FROM "+s.ch.Database+"."+name, "SELECT count() AS c FROM `"+s.ch.Database+"`.`"+name+"`")
	}
	s.adopt(callerPipes(named(statements...)...))
	want := ""
	for i, sql := range statements {
		a := s.pipe(fmt.Sprintf("s%d", i), ofOrg(t, "viewer", "a")...)
		p := refused(t, a, http.StatusForbidden, "pipe.not_allowed")
		if want == "" {
			want = p.Error
		}
		assert.Equal(t, want, p.Error, sql)
		if t.Failed() {
			t.Fatal(sql, a.body)
		}
	}
	require.NotEmpty(t, s.logs.lines(`"level":"WARN"`, "a pipe was refused", `"role":"viewer"`, "vault"), "the operator is told why")
}

// The caps and the denied aggregations of the grants hold for pipes.
func TestAPipeIsHeldToTheCapsOfItsCallersGrants(t *testing.T) {
	t.Parallel()
	s := callerServer(t, `SELECT id FROM events ORDER BY id DESC`, `SELECT max(id) AS m FROM events`, `SELECT maxIf(id, id > 1) AS m FROM events`,
		`SELECT arrayReduce('max', groupArray(id)) AS m FROM events`, `SELECT min(id) AS m FROM events`, `SELECT org FROM events`, `SELECT c FROM daily`, `SELECT argMax(id, id) AS m FROM events`, `SELECT id FROM events LIMIT 3`)
	narrow := ofOrg(t, "analyst", "")
	assert.Equal(t, `[{"id":9},{"id":8},{"id":7}]`, s.pipeRows("s0", narrow...), "max_rows, and the order stays")
	for name, by := range map[string]string{"s0": "role.max_rows", "s4": "", "s8": ""} {
		for accept := range resultFormats {
			for _, cached := range []bool{false, true} {
				a := s.pipe(name, append(narrow, "Accept", accept)...)
				require.Equal(t, http.StatusOK, a.status, a.body)
				assert.Equal(t, by, a.header.Get("X-Result-Truncated"), "%s as %s, cached %v", name, accept, cached)
				if accept == "text/csv" && name == "s0" {
					assert.Equal(t, "\"id\"\n9\n8\n7\n", a.body)
				}
			}
		}
	}
	assert.Equal(t, `[{"m":0}]`, s.pipeRows("s4", narrow...))
	assert.Equal(t, `[{"m":9}]`, s.pipeRows("s7", narrow...))
	for _, name := range []string{"s1", "s2", "s3", "s5", "s6"} {
		refused(t, s.pipe(name, narrow...), http.StatusForbidden, "pipe.not_allowed")
	}
}
