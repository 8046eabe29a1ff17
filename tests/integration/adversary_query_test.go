package integration

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/wavehouse/wavehouse/internal/policy"
)

// vaultColumns are the readable columns, with values to ask about: one that a
// visible row has, ones that only hidden rows have, and ones at the ends.
var vaultColumns = map[string][]string{
	"event_id": {`"0000v"`, `"0003HIDDEN"`, `"%"`, `""`}, "org": {`"birch"`, `"cedar"`, `""`, `"%e%"`},
	"page": {`"3"`, `"HIDDEN-page"`, `"HIDDEN%"`, `"'"`}, "n": {`7`, `0`, `-1`, `"9223372036854775807"`},
	"d": {`3`, `99999`, `"0.01"`}, "f": {`1.25`, `"nan"`, `"inf"`, `0`}, "maybe": {`"m1"`, `"HIDDEN"`, `"%"`},
	"lc": {`"lc1"`, `"HIDDEN"`, `"_I%"`}, "e": {`"one"`, `"two"`, `2`}, "arr": {`[666,667]`, `666`}, "m": {`{"k":"HIDDEN"}`}, "tup": {`["HIDDEN",-666]`},
	"ts": {`"2026-01-01T00:05:00Z"`, `"2031-01-01T00:03:00Z"`, `"2031-01-01T00:03:00.0000001Z"`}, "day": {`"2026-01-01"`, `"2031-01-01"`},
	"we`ird\\ \"name": {`"v0"`, `"HIDDEN1"`}, "dotted.secret": {`"vd"`, `"HIDDENd"`},
	"num": {`3`, `-1`}, "at": {`"1970-01-01T00:00:03Z"`, `"1970-01-01T00:00:00.5Z"`}, "share": {`2`, `100`},
}

const counted = `"aggregations":[{"fn":"count","alias":"c"}]`

// Every filter is an oracle: it must answer about the visible rows alone.
func TestAdversaryFiltersTellOfVisibleRowsOnly(t *testing.T) {
	t.Parallel()
	s, caller := vault(t)
	answered := 0
	ask := func(filter string) {
		if s.alike(t, `{`+counted+`,"filters":[`+filter+`]}`, caller).status == http.StatusOK {
			answered++
		}
	}
	for column, values := range vaultColumns {
		name := `{"column":` + quoted(column) + `,"op":`
		ask(name + `"is_null"}`)
		ask(name + `"is_not_null"}`)
		for _, value := range values {
			for _, op := range []string{"eq", "neq", "gt", "gte", "lt", "lte", "like", "not_like"} {
				ask(name + `"` + op + `","value":` + value + `}`)
			}
			ask(name + `"in","value":[` + value + `]}`)
			ask(name + `"not_in","value":[` + value + `]},{"column":"n","op":"lt","value":40}`)
		}
	}
	assert.Greater(t, answered, 300)
}

// So is every aggregation, group, order and page.
func TestAdversaryAggregatesAndOrdersTellOfVisibleRowsOnly(t *testing.T) {
	t.Parallel()
	s, caller := vault(t)
	answered := 0
	ask := func(format string, args ...any) {
		if s.alike(t, fmt.Sprintf(format, args...), caller).status == http.StatusOK {
			answered++
		}
	}
	for column := range vaultColumns {
		name := quoted(column)
		for _, fn := range policy.Aggregations() {
			params := ""
			if strings.HasPrefix(fn, "arg_") {
				params = `,"by":` + name
			}
			if strings.HasPrefix(fn, "quantile") {
				params = `,"params":[0,1]`[:len(`,"params":[0`)] + map[bool]string{true: `]`, false: `,1]`}[fn == "quantile"]
			}
			ask(`{"aggregations":[{"fn":%q,"column":%s,"alias":"secret"%s}]}`, fn, name, params)
			ask(`{"columns":["e"],"aggregations":[{"fn":%q,"column":%s,"alias":"org"%s}],"group_by":["e"],"order_by":[{"column":"org","dir":"desc"}],"limit":3}`, fn, name, params)
		}
		ask(`{"columns":[%s],%s,"group_by":[%s]}`, name, counted, name)
		for _, page := range []string{`"limit":1`, `"limit":5,"offset":298`, `"limit":1,"offset":300`, `"offset":299`} {
			for _, dir := range []string{"asc", "desc"} {
				ask(`{"columns":["event_id"],"order_by":[{"column":%s,"dir":%q},{"column":"event_id"}],%s}`, name, dir, page)
			}
		}
		for _, every := range []string{"1m", "1h", "1d", "1w"} {
			ask(`{%s,"time_bucket":{"column":%s,"every":%q,"alias":"org"}}`, counted, name, every)
			ask(`{"columns":["event_id"],"time_bucket":{"column":%s,"every":%q,"alias":"secret"},"order_by":[{"column":"secret","dir":"desc"},{"column":"event_id"}],"limit":2}`, name, every)
		}
		for _, bounds := range []string{`"since":"2030-01-01T00:00:00Z"`, `"until":"2030-01-01T00:00:00Z"`, `"since":"1970-01-01T00:00:03Z","until":"2040-01-01T00:00:00Z"`, `"since":"2031-01-01T00:03:00.0000001Z"`} {
			ask(`{%s,"time_range":{"column":%s,%s}}`, counted, name, bounds)
		}
	}
	ask(`{"select_all":true,"order_by":[{"column":"event_id"}]}`)
	ask(`{"select_all":true,"order_by":[{"column":"share","dir":"desc"},{"column":"event_id"}],"limit":300,"offset":1}`)
	ask(`{"select_all":true,"int64":"string"}`)
	assert.Greater(t, answered, 400)
}

// evilNames are names under which something might be found that the caller may
// not read: parts of columns, columns that ClickHouse makes up, and SQL.
var evilNames = []string{
	"secret", "`secret`", `"secret"`, "vault.secret", "wh.secret", "wh.`secret`", "vault.`secret`", "default.vault.secret", "Secret", "secret ", " secret",
	"secret\x00", "ѕecret", "secret\u200b", "secret--", "secret/**/", "secret`", "x`, secret AS `y", "page` OR 1=1 --", "*", "wh.*", "vault.*", "COLUMNS('.*')", "* EXCEPT page",
	"maybe.null", "arr.size0", "m.keys", "m.values", "m.key_k", "m['k']", "tup.a", "tup.b", "tup.1", "tupleElement(tup, 1)", "arr[1]", "lc.dict", "secret.size", "page.size", "dotted", "dotted.",
	"_part", "_table", "_database", "_partition_id", "_part_offset", "_shard_num", "_row_exists", "_part_uuid", "_sample_factor", "_block_number", "__grouping_set", "_part_data_version",
	"{p0:Identifier}", "{p0:String}", "p0", "wh", "wh_in0", "1", "0", "''", "NULL", "count()", "(SELECT any(secret) FROM vault)", "currentUser()", "toString(secret)", "page, secret",
	"page\nsecret", "page\\", "\\`secret\\`", "rowNumberInAllBlocks()", "", "🂡", strings.Repeat("s", 300),
}

// partsOfColumns are those of evilNames that are parts of columns that the caller may
// read, whatever ClickHouse itself understands by them.
var partsOfColumns = []string{"m.keys", "m.values", "m.key_k", "tup.a", "tup.b", "tup.1", "arr[1]"}

// A name is a column of the table, letter for letter, or a part of one, or nothing.
func TestAdversaryNamesInEveryClause(t *testing.T) {
	t.Parallel()
	s, caller := vault(t)
	for _, name := range evilNames {
		q := quoted(name)
		for _, document := range []string{
			`{"columns":[` + q + `]}`, `{"columns":["page",` + q + `]}`,
			`{"columns":["page"],"filters":[{"column":` + q + `,"op":"eq","value":"SECRET-1"}]}`,
			`{"columns":["page"],"filters":[{"column":` + q + `,"op":"like","value":"SECRET%"}]}`,
			`{"columns":["page"],"filters":[{"column":` + q + `,"op":"in","value":["SECRET-1"]}]}`,
			`{"columns":["page"],"filters":[{"column":` + q + `,"op":"is_null"}]}`,
			`{"columns":["page"],"filters":[{"column":"page","op":` + q + `,"value":"SECRET-1"}]}`,
			`{` + counted + `,"group_by":[` + q + `]}`,
			`{"columns":["page"],"order_by":[{"column":` + q + `}],"limit":1}`,
			`{"columns":["page"],"order_by":[{"column":"page","dir":` + quoted("asc, "+name) + `}],"limit":1}`,
			`{"aggregations":[{"fn":"max","column":` + q + `,"alias":"x"}]}`, `{"aggregations":[{"fn":` + q + `,"column":"page","alias":"x"}]}`,
			`{` + counted + `,"time_range":{"column":` + q + `,"since":"1h"}}`, `{` + counted + `,"time_bucket":{"column":` + q + `,"every":"1h"}}`,
			`{` + counted + `,"time_bucket":{"column":"ts","every":` + quoted("1h, "+name) + `}}`,
			`{` + counted + `,"time_range":{"column":"ts","since":` + q + `,"until":` + quoted("'"+name+"'") + `}}`,
		} {
			a := s.query("vault", document, caller...)
			noLeak(t, a, document)
			if a.status == http.StatusOK && slices.Contains(partsOfColumns, name) {
				continue
			}
			assert.Contains(t, []int{http.StatusBadRequest, http.StatusForbidden}, a.status, "%s: %s", document, a.body)
			assert.NotEmpty(t, decode[problem](t, a).Code)
		}
		// As the name of an output it is a name, and the rows stay the same.
		for _, document := range []string{
			`{"aggregations":[{"fn":"max","column":"page","alias":` + q + `}]}`,
			`{"columns":["org"],"aggregations":[{"fn":"count","alias":` + q + `}],"group_by":["org"],"order_by":[{"column":` + q + `}]}`,
			`{` + counted + `,"time_bucket":{"column":"ts","every":"1h","alias":` + q + `},"filters":[{"column":"page","op":"neq","value":"1"}],"order_by":[{"column":` + q + `}]}`,
			`{"columns":["page"],"filters":[{"column":"page","op":"eq","value":` + q + `}]}`,
			`{"columns":["page"],"filters":[{"column":"page","op":"like","value":` + q + `}]}`,
			`{"columns":["page"],"filters":[{"column":"page","op":"not_in","value":[` + q + `,"1","2"]}]}`,
		} {
			s.alike(t, document, caller)
		}
	}
}

// An output may be called like a denied column, or like the one that the row
// rule is about, and changes neither.
func TestAdversaryOutputsNamedLikeWhatIsHidden(t *testing.T) {
	t.Parallel()
	s, caller := vault(t)
	for _, alias := range []string{"secret", "org", "page", "event_id", "vault", "wh", "n"} {
		q := quoted(alias)
		for _, document := range []string{
			`{"aggregations":[{"fn":"min","column":"page","alias":` + q + `}],"filters":[{"column":"org","op":"neq","value":"birch"}]}`,
			`{"aggregations":[{"fn":"count","alias":` + q + `}],"filters":[{"column":"org","op":"in","value":["cedar","","birch"]}]}`,
			`{"aggregations":[{"fn":"any","column":"lc","alias":` + q + `}],"group_by":["org"],"order_by":[{"column":` + q + `,"dir":"desc"}],"limit":1}`,
			`{"aggregations":[{"fn":"max","column":"lc","alias":` + q + `},{"fn":"count","alias":"c"}],"group_by":["lc"],"order_by":[{"column":` + q + `},{"column":"lc"}],"limit":9}`,
			`{"columns":["lc"],"time_bucket":{"column":"ts","every":"1w","alias":` + q + `},"order_by":[{"column":` + q + `,"dir":"desc"},{"column":"event_id"}],"limit":4}`,
		} {
			s.alike(t, document, caller)
		}
	}
	// An output called like the denied column does not open the column.
	for _, document := range []string{
		`{"aggregations":[{"fn":"count","alias":"secret"}],"filters":[{"column":"secret","op":"neq","value":"x"}]}`,
		`{"aggregations":[{"fn":"count","alias":"secret"}],"group_by":["secret"]}`,
		`{"aggregations":[{"fn":"count","alias":"secret"},{"fn":"max","column":"secret","alias":"x"}]}`,
		`{"time_bucket":{"column":"ts","every":"1h","alias":"secret"},` + counted + `,"filters":[{"column":"secret","op":"is_not_null"}]}`,
		`{"columns":["page"],"order_by":[{"column":"secret"}],"limit":1}`,
	} {
		a := s.query("vault", document, caller...)
		refused(t, a, http.StatusForbidden, "query.column_not_allowed")
		noLeak(t, a, document)
	}
}

// A table is one that the schema lists and the policy grants, by its exact name.
func TestAdversaryTableNames(t *testing.T) {
	t.Parallel()
	s, analyst := vault(t)
	viewer := as(t, "viewer") // of every table that no entry names
	database := s.ch.Database
	for _, name := range []string{
		"`vault`", `"vault"`, "vault ", " vault", "VAULT", "Vault", "vault\x00", "vault;", "vault--", "vault,plain", "vault FINAL", "vault AS wh", "vault` AS wh, plain --", "vault/**/",
		database + ".vault", "`" + database + "`.`vault`", database + "`.`vault", "default.vault", "system.tables", "system.query_log", "system.users", "information_schema.tables",
		"merge('.*')", "merge('" + database + "', 'vault')", "remote('127.0.0.1', system.one)", "numbers(3)", "url('http://127.0.0.1:1/')", "file('/etc/passwd')", "(SELECT 1)", "{t:Identifier}",
		"ѵault", "vault\u200b", "vault\n", "../vault", "vault%00", "*", "wh", "wh_in0", strings.Repeat("v", 5000),
	} {
		for _, caller := range [][]string{analyst, viewer, {"X-Operator-Key", operatorKey}} {
			for _, a := range []answer{s.query(name, `{"select_all":true}`, caller...), s.query(name, `{`+counted+`}`, caller...), s.ingest(name, `{"event_id":"x"}`, caller...)} {
				noLeak(t, a, name)
				assert.Contains(t, []int{http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound}, a.status, "%q: %s", name, a.body)
			}
		}
	}
	// An entry of its own, though another role's, keeps the grant on every
	// other table away.
	for _, document := range []string{`{"select_all":true}`, `{"columns":["secret"]}`, `{` + counted + `}`} {
		a := s.query("vault", document, viewer...)
		noLeak(t, a, document)
	}
	for _, query := range []string{"table=plain&table=vault", "table=vault&table=plain", "table=plain&Table=vault", "table=plain%00vault", "table=plain;table=vault", "table=", "", "table[]=vault"} {
		a := s.do(http.MethodPost, "/v1/query?"+query, `{"select_all":true,"limit":2}`, analyst...)
		noLeak(t, a, query)
		if query != "table=plain&Table=vault" { // parameters are case-sensitive: it is plain
			assert.GreaterOrEqual(t, a.status, 400, query)
		}
	}
	a := s.do(http.MethodGet, "/v1/query?table="+url.QueryEscape("vault"), `{"select_all":true}`, analyst...)
	assert.Equal(t, http.StatusMethodNotAllowed, a.status)
	// Nothing of it was written or dropped.
	assert.Equal(t, 400, s.ch.Count(t, "vault"))
	assert.Equal(t, 300, s.ch.Count(t, "plain"))
}
