package integration

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/policy"
)

var (
	oracleDocuments = flag.Int("oracle", 400, "random documents that are asked over hidden rows")
	oracleSeed      = seedFlag("oracle.seed", "the documents")
)

// oracleColumns are the columns that the caller may name, with what a document
// compares them with: values that hidden rows have, and values that none has.
var oracleColumns = map[string][]string{
	"id":    {`"k1"`, `"k7"`, `"zz"`, `""`, `"\u0000"`},
	"email": {`"ann@example.com"`, `"bob@example.com"`, `"%"`, `"\\"`, `"a\\"`, `"%\\\\\\"`, `"_%\\_"`, `"("`, `"\ud800"`},
	"lc":    {`"red"`, `"blue"`, `"r%"`, `"\\"`, `null`},
	"fs":    {`"abcd"`, `"ab"`, `"toolong"`, `"\\"`},
	"n":     {`1`, `0`, `-1`, `"7"`, `9223372036854775807`, `9223372036854775808`, `1.5`},
	"u":     {`0`, `18446744073709551615`, `-1`},
	"f":     {`0`, `-0.0`, `"NaN"`, `"Infinity"`, `1e308`, `1e309`},
	"dec":   {`1.1`, `0.00001`, `99999999999999999`, `"1.1"`},
	"flag":  {`true`, `false`, `1`},
	"uid":   {`"61f0c404-5cb3-11e7-907b-a6006ad3dba0"`, `"x"`},
	"ip":    {`"127.0.0.1"`, `"::1"`},
	"e":     {`"on"`, `"off"`, `"none"`},
	"d":     {`"2026-01-01"`, `"1970-01-01"`, `"2299-12-31"`},
	"dt":    {`"2026-01-01T00:00:00Z"`, `"2026-01-01T00:00:00.5Z"`, `0`},
	"ts":    {`"2026-01-01T00:00:00.001Z"`, `"1900-01-01T00:00:00Z"`, `"2299-12-31T23:59:59Z"`, `1767225600000`},
	"tags":  {`["a"]`, `"a"`},
	"num":   {`5`, `0`}, "share": {`100`, `0`}, "at": {`"1970-01-01T00:00:05Z"`},
	"late": {`5`, `0`}, "stored": {`5`}, "when": {`"1970-01-01T00:00:05Z"`},
	"org": {`"cedar"`}, "nosuch": {`1`},
	"attrs.key": {`"ann@example.com"`, `"%"`, `"\\"`}, `attrs["a b"]`: {`""`}, "attrs": {`"key"`}, "point.x": {`1`, `-1`}, "point.inner.name": {`"red"`}, "point[1]": {`0`}, "nums[1]": {`1`}, "nums[-1]": {`0`}, "nums": {`1`},
	"members.email": {`"ann@example.com"`}, "members[1].id": {`1`}, "payload.user.name": {`"ann@example.com"`, `5`, `true`}, "payload.n": {`1`, `0.5`, `"1"`}, "payload.at": {`"2026-01-01T00:00:00Z"`}, "payload.day": {`"2026-01-01"`},
}

// oracleParts are parts of columns, and columns that have some.
var oracleParts = []string{
	"attrs.key", `attrs["a b"]`, "attrs", "point.x", "point.inner.name", "point[1]", "nums[1]", "nums[-1]", "nums", "members.email", "members[1].id", "payload.user.name", "payload.n", "payload.at", "payload.day",
}

// oracleTables are the tables as they are made: on disk with columns that are
// computed as they are read, behind a view, in memory, behind another table.
var oracleTables = []string{
	`CREATE TABLE events (id String, org String, email String, lc LowCardinality(Nullable(String)), fs FixedString(4), n Int64, u UInt64, f Nullable(Float64),
		dec Decimal(18, 4), flag Bool, uid UUID, ip IPv4, e Enum8('on' = 1, 'off' = 2), d Date, dt DateTime('UTC'), ts DateTime64(3, 'UTC'), tags Array(String), text String,
		attrs Map(String, String) DEFAULT map('key', email, 'a b', text), point Tuple(x Int64, inner Tuple(name String)) DEFAULT (n, tuple(assumeNotNull(lc))), nums Array(Int64) DEFAULT [n, 0],
		members Array(Tuple(id Int64, email String)) DEFAULT [(n, email)], payload JSON(at DateTime64(3, 'UTC')) DEFAULT toJSONString(map('user', toJSONString(map('name', email)), 'n', toString(n))),
		num UInt64 ALIAS toUInt64(text), share Int64 ALIAS intDiv(100, n), at DateTime ALIAS toDateTime(text)) ENGINE = MergeTree ORDER BY (id, n)`,
	`CREATE TABLE newest AS events ENGINE = ReplacingMergeTree ORDER BY (id, n)`,
	`CREATE TABLE held AS events ENGINE = Memory`,
	// Indexes that hold values are asked by computing a condition on them.
	`ALTER TABLE events ADD INDEX of_n n TYPE set(0) GRANULARITY 1, ADD INDEX of_text text TYPE set(0) GRANULARITY 1, ADD INDEX of_email email TYPE set(0) GRANULARITY 1`,
}

// oracleLater is what comes after the rows are there.
var oracleLater = []string{
	`ALTER TABLE events ADD COLUMN late UInt64 DEFAULT toUInt64(text), ADD COLUMN stored UInt64 MATERIALIZED toUInt64(text), ADD COLUMN when DateTime DEFAULT toDateTime(text)`,
	`ALTER TABLE newest ADD COLUMN late UInt64 DEFAULT toUInt64(text), ADD COLUMN stored UInt64 MATERIALIZED toUInt64(text), ADD COLUMN when DateTime DEFAULT toDateTime(text)`,
	`CREATE VIEW viewed AS SELECT * EXCEPT text, toUInt64(text) AS num, intDiv(100, n) AS share, toDateTime(text) AS at FROM events`,
	`CREATE VIEW plain AS SELECT * FROM newest`,
}

// oracleRow makes rows whose organisation is the dearest column to read:
// ClickHouse judges it last where it is free to.
const oracleRow = `SELECT 'k' || toString(number), if(number %% 1000 = 3, 'cedar', 'oak' || repeat('x', number %% 300)), if(number %% 3 = 1, 'ann@example.com', 'bob@example.com'), if(number %% 5 = 0, NULL, 'red'), 'abcd',
	%[2]s, 18446744073709551615, if(number %% 4 = 0, nan, 1e308), 1.1, number %% 2, '61f0c404-5cb3-11e7-907b-a6006ad3dba0', '127.0.0.1', 'on', '2026-01-01', '2026-01-01 00:00:00',
	'2026-01-01 00:00:00.001', ['a', '\\'], %[3]s FROM numbers(%[4]d)`

// oracle is a server with hidden rows. Rules show none of them to the caller.
func oracle(t *testing.T, n, text string, rows int) *server {
	statements := append([]string{}, oracleTables...)
	for _, table := range []string{"events", "newest", "held"} {
		if rows > 0 {
			statements = append(statements, fmt.Sprintf("INSERT INTO %s (id, org, email, lc, fs, n, u, f, dec, flag, uid, ip, e, d, dt, ts, tags, text) "+oracleRow, table, n, text, rows))
		}
	}
	return start(t, options{env: []string{"WH_STREAM_ID_KEY=" + strings.Repeat("ab", 32)}, policies: `{"tables":{
		"events":{"viewer":{"select":{"deny_columns":["org","text"],"filter":{"org":{"_eq":"{{ jwt.org }}"}}}},
			"analyst":{"select":{"deny_columns":["text"],"filter":{"_not":{"org":{"_neq":"birch"}}}}}},
		"newest":{"viewer":{"select":{"filter":{"org":{"_like":"birch%"}}}},"analyst":{"select":{"filter":{"n":{"_gt":5000}}}}},
		"*":{"viewer":{"select":{"deny_columns":["org","text"],"filter":{"org":{"_in":["birch","{{ jwt.org }}"]}}}},
			"analyst":{"select":{"deny_columns":["text"],"filter":{"_or":[{"id":{"_eq":"none"}},{"org":{"_lt":"b"}}]}}}}}}`}, append(statements, oracleLater...)...)
}

// TestAnswersDoNotDependOnHiddenRows: a caller who may see no row of a table
// asks random documents of it, over two different sets of hidden rows. Nothing
// of what it is answered may tell them apart.
func TestAnswersDoNotDependOnHiddenRows(t *testing.T) {
	t.Parallel()
	seed := oracleSeed.draw(t)
	random := rand.New(rand.NewPCG(seed, 0))
	servers := []*server{oracle(t, "number % 2", "'hidden-value'", 3000), oracle(t, "1", "'5'", 0), oracle(t, "7", "'5'", 1)}
	tables, roles := []string{"events", "newest", "held", "viewed", "plain"}, []string{"viewer", "analyst"}
	statuses, asked := map[int]int{}, map[string]bool{}
	ask := func(table, role, accept, body string) {
		if asked[table+body] {
			return // an answer in the cache is as old as its question
		}
		asked[table+body] = true
		headers := []string{"Authorization", "Bearer " + token(t, jwt.MapClaims{"role": role, "org": "birch"}), "Accept", accept}
		for n := range 2 { // the second may come from the cache
			want := ""
			for i, s := range servers {
				if n == 1 && i == 1 && random.IntN(50) == 0 {
					// Rows of others come, and what was cached goes, on one server alone.
					behind := map[string]string{"viewed": "events", "plain": "newest"}
					into := cmp.Or(behind[table], table)
					require.Equal(t, http.StatusOK, s.opsSQL("INSERT INTO "+into+" (id, org, n, text) VALUES ('new', 'cedar', 7, '5')").status)
				}
				a := s.query(table, body, headers...)
				got := visible(a)
				if i == 0 {
					want = got
					statuses[a.status]++
				}
				require.Equal(t, want, got, "hidden rows of %s show to the %s by -oracle.seed=%d: %s", table, role, seed, body)
				require.NotContains(t, a.body, "hidden")
			}
		}
	}
	for _, body := range []string{
		`{"columns":["id"],"filters":[{"column":"email","op":"eq","value":"ann@example.com"},{"column":"email","op":"like","value":"\\"}]}`,
		`{"columns":["late","id"],"order_by":[{"column":"late"}],"limit":2}`,
		`{"columns":["id"],"filters":[{"column":"share","op":"eq","value":100}]}`,
		`{"columns":["id"],"filters":[{"column":"num","op":"eq","value":5}]}`,
		`{"aggregations":[{"fn":"count"}],"filters":[{"column":"stored","op":"eq","value":5}]}`,
	} {
		for _, table := range tables {
			for _, role := range roles {
				ask(table, role, "application/json", body+strings.Repeat(" ", len(role)))
			}
		}
	}
	// sealed puts the cursor of somebody who sees hidden rows, "" where there is none,
	// into a document.
	pages, others := 0, 0
	sealed := func(table, body string) string {
		if !strings.Contains(body, oracleCursor) {
			return body
		}
		pages++
		cursor := servers[0].query(table, strings.ReplaceAll(body, oracleCursor, `""`), "X-Operator-Key", operatorKey).header.Get("X-Next-Cursor")
		if cursor != "" {
			others++
		}
		return strings.ReplaceAll(body, oracleCursor, strconv.Quote(cursor))
	}
	for _, table := range tables {
		for _, role := range roles {
			body := `{"columns":["id","n"],"order_by":[{"column":"id"},{"column":"n"}],"limit":2,"cursor":` + oracleCursor + `}`
			ask(table, role, "application/json", sealed(table, body)+strings.Repeat(" ", len(role)))
		}
	}
	require.Equal(t, pages, others)
	for range *oracleDocuments {
		accept := pick(random, "application/json", "application/json", "application/x-ndjson", "text/csv", "application/vnd.apache.arrow.stream", "application/vnd.apache.parquet")
		table := pick(random, tables...)
		ask(table, pick(random, roles...), accept, sealed(table, oracleDocument(random)))
	}
	t.Logf("answers by status: %v; %d documents with a cursor, of which %d are somebody else's", statuses, pages, others)
	require.Positive(t, statuses[http.StatusOK])
}

// visible is all that a caller is told, without what differs by request.
func visible(a answer) string {
	body := a.body
	var fields map[string]any
	if a.status >= http.StatusBadRequest && json.Unmarshal([]byte(body), &fields) == nil {
		delete(fields, "request_id")
		out, _ := json.Marshal(fields)
		body = string(out)
	}
	header := a.header.Clone()
	for _, name := range []string{"Date", "X-Request-Id", "Traceparent", "Content-Length"} {
		header.Del(name)
	}
	return fmt.Sprintf("%d %v %d\n%s", a.status, header, len(body), body)
}

func pick(random *rand.Rand, of ...string) string { return of[random.IntN(len(of))] }

// oracleDocument draws a document of all that documents are made of.
func oracleDocument(random *rand.Rand) string {
	names := make([]string, 0, len(oracleColumns))
	for name := range oracleColumns {
		names = append(names, name)
	}
	slices.Sort(names)
	column := func() string {
		if random.IntN(30) > 0 { // one in thirty may be refused, or is not there
			if random.IntN(3) == 0 {
				return pick(random, oracleParts...)
			}
			return pick(random, "id", "email", "lc", "fs", "n", "u", "f", "dec", "flag", "uid", "ip", "e", "d", "dt", "ts", "num", "share", "at", "late", "stored", "when")
		}
		return pick(random, names...)
	}
	numbers := []string{"n", "u", "f", "dec", "num", "share", "late", "stored"}
	doc := map[string]any{}
	var outputs []string
	var aggregations []map[string]any
	if random.IntN(3) > 0 {
		for range 1 + random.IntN(2) {
			outputs = append(outputs, column())
		}
		doc["columns"] = outputs
	}
	if random.IntN(2) == 0 {
		for i := range 1 + random.IntN(2) {
			a := map[string]any{"fn": pick(random, policy.Aggregations()...), "column": pick(random, numbers...), "alias": fmt.Sprintf("a%d", i)}
			if random.IntN(4) == 0 {
				a["column"] = column()
			}
			if strings.HasPrefix(a["fn"].(string), "quantile") {
				a["params"] = []float64{0.5}
			}
			if strings.HasPrefix(a["fn"].(string), "arg_") {
				a["by"] = column()
			}
			if random.IntN(8) == 0 {
				delete(a, "column")
				a = map[string]any{"fn": "ratio", "alias": a["alias"], "numerator": map[string]any{"fn": "sum", "column": pick(random, numbers...)}, "denominator": map[string]any{"fn": "count", "column": column()}}
			}
			aggregations = append(aggregations, a)
		}
		doc["aggregations"] = aggregations
		doc["group_by"] = outputs
		if outputs == nil {
			delete(doc, "group_by")
		}
	}
	if len(doc) == 0 {
		doc["select_all"] = true
	}
	if doc["aggregations"] == nil && random.IntN(4) == 0 {
		doc["distinct"] = true
	}
	var filters []any
	for range random.IntN(4) {
		filters = append(filters, oracleFilter(random, column, 3))
	}
	for _, a := range aggregations {
		if a["fn"] != "ratio" && random.IntN(4) == 0 {
			a["where"] = []any{oracleFilter(random, column, 2)}
		}
	}
	if doc["aggregations"] != nil && random.IntN(4) == 0 {
		by := oracleFilter(random, func() string { return pick(random, append(outputs, "nosuch")...) }, 1)
		if random.IntN(2) == 0 {
			by = map[string]any{"column": "a0", "op": pick(random, "gte", "eq", "neq"), "value": 0}
		}
		doc["having"] = []any{by}
	}
	if doc["group_by"] != nil && random.IntN(3) == 0 {
		doc["totals"] = true
	}
	if random.IntN(5) == 0 {
		name := pick(random, "id", "email", "lc")
		filters = append(filters, map[string]any{"column": name, "op": pick(random, "eq", "gte"), "value": json.RawMessage(oracleColumns[name][0])},
			map[string]any{"column": name, "op": pick(random, "like", "not_like"), "value": pick(random, `\`, `a%\`, `%\\`, `a_`, `%`, `%\\\`)})
	}
	if filters != nil {
		doc["filters"] = filters
	}
	if random.IntN(3) == 0 {
		by := column()
		if doc["group_by"] != nil {
			by = outputs[0]
		} else if doc["aggregations"] != nil {
			by = "a0"
		}
		doc["order_by"] = []any{map[string]any{"column": by, "dir": pick(random, "asc", "desc")}}
	}
	if random.IntN(4) == 0 {
		doc["limit"] = random.IntN(3)
	}
	if random.IntN(6) == 0 {
		doc["offset"] = random.IntN(3)
	}
	if random.IntN(4) == 0 {
		doc["time_range"] = map[string]any{"column": pick(random, "d", "dt", "ts", "at", "when"), "since": pick(random, "1970-01-01T00:00:02Z", "2026-01-01T00:00:00.0001Z", "1d", "2025-12-31"),
			"until": pick(random, "", "2026-01-02", "2299-12-31"), "time_zone": pick(random, "", "Europe/Berlin")}
		if random.IntN(3) == 0 {
			doc["compare"] = pick(random, "previous", "1mo", "50y")
		}
	}
	if random.IntN(4) == 0 {
		doc["time_bucket"] = map[string]any{"column": pick(random, "d", "dt", "ts", "at", "when"), "every": pick(random, "1s", "1h", "1d", "1w", "1mo"),
			"time_zone": pick(random, "", "Europe/Berlin"), "fill": random.IntN(2) == 0}
	}
	if doc["order_by"] != nil && random.IntN(2) == 0 {
		doc["cursor"] = json.RawMessage(pick(random, `""`, oracleCursor, oracleCursor, `"AULdYxX3"`))
		if random.IntN(8) > 0 { // what keeps a document from having pages
			doc["limit"] = 1 + random.IntN(3)
			delete(doc, "offset")
			delete(doc, "compare")
		}
	}
	text, err := json.Marshal(doc)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// oracleCursor stands in a document for the cursor of somebody else.
const oracleCursor = `"$cursor"`

// oracleFilter draws a condition, or a group of them.
func oracleFilter(random *rand.Rand, column func() string, depth int) any {
	if depth > 0 && random.IntN(3) == 0 {
		group := make([]any, 1+random.IntN(3))
		for i := range group {
			group[i] = oracleFilter(random, column, depth-1)
		}
		if key := pick(random, "and", "or", "not"); key != "not" {
			return map[string]any{key: group}
		}
		return map[string]any{"not": group[0]}
	}
	name := column()
	value := json.RawMessage(pick(random, oracleColumns[name]...))
	f := map[string]any{"column": name, "value": value, "op": pick(random, "eq", "neq", "gt", "gte", "lt", "lte", "in", "not_in", "like", "not_like", "is_null", "is_not_null",
		"between", "not_between", "ilike", "not_ilike", "starts_with", "ends_with", "contains", "not_contains", "contains_any", "contains_all")}
	switch f["op"] {
	case "in", "not_in", "contains_any", "contains_all":
		f["value"] = []json.RawMessage{value}
	case "between", "not_between":
		f["value"] = []json.RawMessage{value, json.RawMessage(pick(random, oracleColumns[name]...))}
	case "is_null", "is_not_null":
		delete(f, "value")
	case "like", "not_like", "ilike", "not_ilike", "starts_with", "ends_with":
		f["column"] = pick(random, "id", "email", "lc", "fs", "attrs.key", "point.inner.name", "payload.user.name")
		f["value"] = json.RawMessage(pick(random, oracleColumns["email"]...))
	case "contains", "not_contains":
		f["column"] = pick(random, "email", "attrs", "nums", "members.email", name)
	}
	return f
}
