package query_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/query"
	"github.com/wavehouse/wavehouse/internal/schema"
)

// conditions makes a table with a column of each kind that conditions are about.
func (e *engine) conditions(t *testing.T) *schema.Table {
	t.Helper()
	e.Exec(t, "CREATE TABLE conds (k UInt32, i Nullable(Int32), f Nullable(Float64), s String, ns Nullable(String), lc LowCardinality(Nullable(String)),"+
		" e Enum8('red' = 1, 'blue' = 2), d Date, ts DateTime64(3, 'UTC'), nt Nullable(DateTime('UTC')), dec Decimal(18, 3), u UUID, ip IPv4, fs FixedString(3), b Bool, tags Array(String),"+
		" nums Array(Nullable(Int32)), colors Array(Enum8('red' = 1, 'blue' = 2)), times Array(DateTime64(3, 'UTC')), lcs Array(LowCardinality(String)), attrs Map(String, String), codes Map(LowCardinality(String), Int32),"+
		" days Map(Date, UInt8)) ENGINE = MergeTree ORDER BY k",
		"INSERT INTO conds SELECT number, if(number % 7 = 0, NULL, number % 10), [NULL, nan, 0.0, -0.0, 1.5, inf, -2][number % 7 + 1],"+
			" ['', 'äpfel', 'ÄPFEL', 'a%b_c', 'A\\\\B', 'ΣΑΣ', 'straße', 'Ⱥb', 'a\\nb', 'home'][number % 10 + 1], if(number % 3 = 0, NULL, ['Home', 'docs', 'ДОМ'][number % 4]), if(number % 5 = 0, NULL, 'v' || toString(number % 4)),"+
			" ['red', 'blue'][number % 2 + 1], toDate('2026-01-01') + number % 5, toDateTime64('2026-01-01 00:00:00.000', 3, 'UTC') + number % 5 / 1000, if(number % 4 = 0, NULL, toDateTime('2026-01-01 00:00:00', 'UTC') + number % 3), number % 6 / 2,"+
			" toUUID('00000000-0000-0000-0000-00000000000' || toString(number % 4)), toIPv4(number % 4), ['a', 'abc', 'xyz'][number % 3 + 1], number % 2,"+
			" arraySlice(['a', 'b', 'é', ''], 1 + number % 4, number % 3), if(number % 5 = 0, [NULL], arrayMap(x -> toInt32(x), range(number % 4))), arraySlice(['red', 'blue'], 1 + number % 2, 1),"+
			" [toDateTime64('2026-01-01 00:00:00.000', 3, 'UTC') + number % 3], ['x', 'y' || toString(number % 2)], map('a', 'x', 'k' || toString(number % 3), ''), map('c' || toString(number % 3), number), map(toDate('2026-01-01') + number % 2, 1)"+
			" FROM numbers(280)")
	return e.describe(t, "conds")
}

// found are the rows that a list of filters leaves.
func (e *engine) found(t *testing.T, table *schema.Table, grant *policy.SelectGrant, filters string) string {
	t.Helper()
	s, err := build(table, grant, `{"columns":["k"],"order_by":[{"column":"k"}],"filters":`+filters+`}`)
	require.NoError(t, err, filters)
	text, err := e.run(t, s)
	require.NoError(t, err, "%s\n%s", filters, s.SQL)
	var rows []struct{ K int }
	require.NoError(t, json.Unmarshal([]byte(text), &rows), text)
	ks := make([]string, len(rows))
	for i, row := range rows {
		ks[i] = strconv.Itoa(row.K)
	}
	return strings.Join(ks, ",")
}

// leaf is a condition and what it means in SQL.
type leaf struct{ filter, sql string }

// leaves are every operator on the types that it is for.
func leaves() []leaf {
	leaves := []leaf{
		{`{"column":"i","op":"between","value":[2,"5"]}`, "i BETWEEN 2 AND 5"},
		{`{"column":"i","op":"not_between","value":[2,5]}`, "i NOT BETWEEN 2 AND 5"},
		{`{"column":"i","op":"between","value":[5,2]}`, "i BETWEEN 5 AND 2"},
		{`{"column":"f","op":"between","value":[-2,1]}`, "f BETWEEN -2 AND 1"},
		{`{"column":"f","op":"not_between","value":[0,"Infinity"]}`, "NOT (f >= 0 AND f <= inf)"},
		{`{"column":"s","op":"between","value":["a","b"]}`, "s BETWEEN 'a' AND 'b'"},
		{`{"column":"lc","op":"not_between","value":["v1","v2"]}`, "lc NOT BETWEEN 'v1' AND 'v2'"},
		{`{"column":"e","op":"between","value":["red","red"]}`, "e BETWEEN 'red' AND 'red'"},
		{`{"column":"d","op":"between","value":["2026-01-02","2026-01-03"]}`, "d BETWEEN '2026-01-02' AND '2026-01-03'"},
		{`{"column":"ts","op":"between","value":["2026-01-01T01:00:00.001+01:00","2026-01-01T00:00:00.0035Z"]}`, "ts BETWEEN '2026-01-01 00:00:00.001' AND '2026-01-01 00:00:00.003'"},
		{`{"column":"nt","op":"not_between","value":["2026-01-01T00:00:00.5Z","2026-01-01T00:00:01.5Z"]}`, "nt NOT BETWEEN '2026-01-01 00:00:01' AND '2026-01-01 00:00:01'"},
		{`{"column":"dec","op":"between","value":[0.5,"1.500"]}`, "dec BETWEEN toDecimal64('0.5', 3) AND toDecimal64('1.5', 3)"},
		{`{"column":"u","op":"between","value":["00000000-0000-0000-0000-000000000001","00000000-0000-0000-0000-000000000002"]}`, "u BETWEEN toUUID('00000000-0000-0000-0000-000000000001') AND toUUID('00000000-0000-0000-0000-000000000002')"},
		{`{"column":"ip","op":"between","value":["0.0.0.1","0.0.0.2"]}`, "ip BETWEEN toIPv4('0.0.0.1') AND toIPv4('0.0.0.2')"},
		{`{"column":"nt","op":"eq","value":"2026-01-01T00:00:00.5Z"}`, "if(nt IS NULL, NULL, 0)"},
		{`{"column":"nt","op":"neq","value":"2026-01-01T00:00:00.5Z"}`, "if(nt IS NULL, NULL, 1)"},
		{`{"column":"f","op":"eq","value":0}`, "f = 0"},
		{`{"column":"f","op":"neq","value":"-0.0"}`, "f != 0"},
		{`{"column":"f","op":"eq","value":"nan"}`, "f = nan"},
		{`{"column":"f","op":"eq","value":1.5}`, "f = 1.5"},
		{`{"column":"i","op":"in","value":[1,2,3]}`, "i IN (1, 2, 3)"},
		{`{"column":"ns","op":"not_in","value":["docs"]}`, "ns != 'docs'"},
		{`{"column":"ns","op":"like","value":"%o%"}`, "ns LIKE '%o%'"},
		{`{"column":"ns","op":"is_null"}`, "ns IS NULL"},
		{`{"column":"tags","op":"is_not_null"}`, "1"},
		{`{"column":"s","op":"ilike","value":"äp%"}`, "s IN ('äpfel', 'ÄPFEL')"},
		{`{"column":"s","op":"ilike","value":"%ÄPFEL"}`, "s IN ('äpfel', 'ÄPFEL')"},
		{`{"column":"s","op":"ilike","value":"_PF_l"}`, "s IN ('äpfel', 'ÄPFEL')"},
		{`{"column":"s","op":"ilike","value":"σας"}`, "s = 'ΣΑΣ'"},
		{`{"column":"s","op":"ilike","value":"%ς"}`, "s = 'ΣΑΣ'"},
		{`{"column":"s","op":"ilike","value":"%STRAẞE%"}`, "s = 'straße'"},
		{`{"column":"s","op":"ilike","value":"%ⱥB%"}`, "s = 'Ⱥb'"},
		{`{"column":"s","op":"ilike","value":"A\\%B\\_C"}`, "s = 'a%b_c'"},
		{`{"column":"s","op":"ilike","value":"a\\\\b"}`, "s = 'A\\\\B'"},
		{`{"column":"s","op":"ilike","value":"A_B"}`, "s IN ('a\\nb', 'A\\\\B')"},
		{`{"column":"s","op":"ilike","value":"a.*"}`, "0"},
		{`{"column":"s","op":"ilike","value":""}`, "s = ''"},
		{`{"column":"s","op":"ilike","value":"%"}`, "1"},
		{`{"column":"s","op":"not_ilike","value":"%E%"}`, "s NOT ILIKE '%e%'"},
		{`{"column":"ns","op":"ilike","value":"дом"}`, "ns = 'ДОМ'"},
		{`{"column":"lc","op":"not_ilike","value":"V1"}`, "lc NOT ILIKE 'v1'"},
		{`{"column":"fs","op":"ilike","value":"AB%"}`, "fs = 'abc'"},
		{`{"column":"s","op":"starts_with","value":"a%"}`, "startsWith(s, 'a%')"},
		{`{"column":"s","op":"starts_with","value":""}`, "1"},
		{`{"column":"ns","op":"starts_with","value":"Д"}`, "startsWith(ns, 'Д')"},
		{`{"column":"lc","op":"ends_with","value":"1"}`, "endsWith(lc, '1')"},
		{`{"column":"fs","op":"ends_with","value":"bc"}`, "fs = 'abc'"},
		{`{"column":"s","op":"contains","value":"%b_"}`, "position(s, '%b_') > 0"},
		{`{"column":"s","op":"contains","value":"\\"}`, "position(s, '\\\\') > 0"},
		{`{"column":"s","op":"contains","value":"\n"}`, "position(s, '\\n') > 0"},
		{`{"column":"ns","op":"not_contains","value":"o"}`, "position(ns, 'o') = 0"},
		{`{"column":"tags","op":"contains","value":"é"}`, "has(tags, 'é')"},
		{`{"column":"tags","op":"not_contains","value":""}`, "NOT has(tags, '')"},
		{`{"column":"nums","op":"contains","value":"2"}`, "has(nums, 2)"},
		{`{"column":"colors","op":"contains","value":"blue"}`, "has(colors, 'blue')"},
		{`{"column":"colors","op":"contains","value":2}`, "has(colors, 'blue')"},
		{`{"column":"times","op":"contains","value":"2026-01-01T00:00:01Z"}`, "has(times, toDateTime64('2026-01-01 00:00:01', 3, 'UTC'))"},
		{`{"column":"lcs","op":"contains","value":"y1"}`, "has(lcs, 'y1')"},
		{`{"column":"attrs","op":"contains","value":"k1"}`, "mapContains(attrs, 'k1')"},
		{`{"column":"codes","op":"not_contains","value":"c1"}`, "NOT mapContains(codes, 'c1')"},
		{`{"column":"days","op":"contains","value":"2026-01-02"}`, "mapContains(days, toDate('2026-01-02'))"},
		{`{"column":"tags","op":"contains_any","value":["é","zz"]}`, "hasAny(tags, ['é', 'zz'])"},
		{`{"column":"tags","op":"contains_any","value":[]}`, "0"},
		{`{"column":"tags","op":"contains_all","value":["a","b"]}`, "hasAll(tags, ['a', 'b'])"},
		{`{"column":"tags","op":"contains_all","value":[]}`, "1"},
		{`{"column":"nums","op":"contains_all","value":[0,"1"]}`, "hasAll(nums, [0, 1])"},
		{`{"column":"colors","op":"contains_any","value":["red"]}`, "has(colors, 'red')"},
		{`{"column":"times","op":"contains_any","value":["2026-01-01T00:00:01Z","2026-01-01T00:00:02Z"]}`, "hasAny(times, [toDateTime64('2026-01-01 00:00:01', 3, 'UTC'), toDateTime64('2026-01-01 00:00:02', 3, 'UTC')])"},
	}
	for op, sql := range map[string]string{"eq": "=", "neq": "!=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<="} {
		leaves = append(leaves,
			leaf{`{"column":"i","op":"` + op + `","value":4}`, "i " + sql + " 4"},
			leaf{`{"column":"f","op":"` + op + `","value":0}`, "f " + sql + " 0"},
			leaf{`{"column":"ns","op":"` + op + `","value":"docs"}`, "ns " + sql + " 'docs'"},
			leaf{`{"column":"lc","op":"` + op + `","value":"v2"}`, "lc " + sql + " 'v2'"},
			leaf{`{"column":"b","op":"` + op + `","value":true}`, "b " + sql + " true"},
			leaf{`{"column":"dec","op":"` + op + `","value":1.5}`, "dec " + sql + " toDecimal64('1.5', 3)"},
		)
	}
	slices.SortFunc(leaves, func(a, b leaf) int { return strings.Compare(a.filter, b.filter) })
	return leaves
}

// plainly keeps ClickHouse from making lists of equalities, in which it looks
// for bits and not for values.
const plainly = " ORDER BY k SETTINGS optimize_min_equality_disjunction_chain_length = 1000000, optimize_min_inequality_conjunction_chain_length = 1000000"

func (e *engine) meant(t *testing.T, sql string) string {
	t.Helper()
	ks := []string{}
	for _, row := range e.Rows(t, "SELECT k FROM conds WHERE "+sql+plainly) {
		ks = append(ks, row[0])
	}
	return strings.Join(ks, ",")
}

func TestEveryOperatorMeansItsSQL(t *testing.T) {
	e := startEngine(t)
	table := e.conditions(t)
	for _, l := range leaves() {
		assert.Equal(t, e.meant(t, l.sql), e.found(t, table, policy.OperatorSelect(), "["+l.filter+"]"), "%s is not %s", l.filter, l.sql)
		assert.Equal(t, e.meant(t, "NOT ("+l.sql+")"), e.found(t, table, policy.OperatorSelect(), `[{"not":`+l.filter+`}]`), "not %s is not %s", l.filter, l.sql)
	}
}

// combined makes a random tree of conditions.
func combined(r *rand.Rand, leaves []leaf, depth int) leaf {
	if depth == 0 || r.IntN(4) == 0 {
		return leaves[r.IntN(len(leaves))]
	}
	key, word := "and", " AND "
	switch r.IntN(3) {
	case 0:
		part := combined(r, leaves, depth-1)
		return leaf{`{"not":` + part.filter + `}`, "(NOT " + "(" + part.sql + "))"}
	case 1:
		key, word = "or", " OR "
	}
	var filters, texts []string
	for range 1 + r.IntN(4) {
		part := combined(r, leaves, depth-1)
		filters, texts = append(filters, part.filter), append(texts, "("+part.sql+")")
	}
	return leaf{`{"` + key + `":[` + strings.Join(filters, ",") + `]}`, "(" + strings.Join(texts, word) + ")"}
}

func TestNestedConditionsMeanTheirSQL(t *testing.T) {
	e := startEngine(t)
	table := e.conditions(t)
	all, floats := leaves(), []leaf{}
	for _, l := range all {
		if strings.Contains(l.filter, `"f"`) {
			floats = append(floats, l)
		}
	}
	for seed := range uint64(120) {
		r := rand.New(rand.NewPCG(seed, 1))
		pick := all
		if seed%4 == 0 {
			pick = floats // chains of equalities over one column
		}
		l := combined(r, pick, 4)
		assert.Equal(t, e.meant(t, l.sql), e.found(t, table, policy.OperatorSelect(), "["+l.filter+"]"), "seed %d: %s is not %s", seed, l.filter, l.sql)
	}
	assert.Equal(t, e.meant(t, "1"), e.found(t, table, policy.OperatorSelect(), `[{"and":[]},{"and":[{"and":[]}]}]`))
	assert.Empty(t, e.found(t, table, policy.OperatorSelect(), `[{"not":{"and":[]}}]`))
}

func TestTheSQLOfGroups(t *testing.T) {
	for filters, want := range map[string]string{
		`[{"or":[{"column":"n","op":"eq","value":1},{"column":"page","op":"is_null"}]},{"column":"n","op":"lt","value":9}]`: "(wh.`n` = {p0:Int64} OR wh.`page` IS NULL) AND wh.`n` < {p1:Int64}",
		`[{"not":{"and":[{"column":"n","op":"between","value":[1,2]},{"not":{"column":"n","op":"eq","value":3}}]}}]`:        "NOT (((wh.`n` >= {p0:Int64} AND wh.`n` <= {p1:Int64}) AND NOT (wh.`n` = {p2:Int64})))",
		`[{"and":[]}]`: "1",
	} {
		s, err := build(pages(), policy.OperatorSelect(), `{"columns":["n"],"filters":`+filters+`}`)
		require.NoError(t, err)
		assert.Contains(t, s.SQL, " WHERE "+want+" LIMIT")
	}
}

func TestGroupsThatAreRefused(t *testing.T) {
	const leaf = `{"column":"n","op":"eq","value":1}`
	deep := func(n int) string {
		return strings.Repeat(`{"not":`, n) + leaf + strings.Repeat("}", n)
	}
	many := func(n int) string { return `{"or":[` + strings.TrimSuffix(strings.Repeat(leaf+",", n), ",") + `]}` }
	for filter, want := range map[string]string{
		`{"or":[]}`:                                           "filters[0].or: an empty list",
		`{"and":[` + leaf + `,{"or":[]}]}`:                    "filters[0].and[1].or: an empty list",
		`{}`:                                                  "filters[0]: want exactly one of column (with its op), and, or, not",
		`{"and":[],"or":[` + leaf + `]}`:                      "exactly one of",
		`{"not":` + leaf + `,"column":"n"}`:                   "exactly one of",
		`{"and":[],"op":"eq"}`:                                "exactly one of",
		`{"or":[{"not":{"not":{"value":1}}}]}`:                "filters[0].or[0].not.not: want exactly one of",
		`{"or":[{"not":{"not":{"column":"n"}}}]}`:             `filters[0].or[0].not.not: unknown op ""`,
		`{"or":[{"column":"m","op":"eq"}]}`:                   `filters[0].or[0]: the table has no column "m"`,
		`{"not":null}`:                                        "filters[0].not: null is not a value here",
		`{"or":` + leaf + `}`:                                 "filters[0].or: want an array",
		deep(17):                                              "may be nested 16 deep",
		many(1000):                                            "1000 conditions and groups",
		`{"or":[{"column":"n","op":"both"}]}`:                 "want one of eq, neq, gt, gte, lt, lte, between, not_between, in, not_in, like, not_like, ilike, not_ilike, starts_with, ends_with, contains, not_contains, contains_any, contains_all, is_null, is_not_null",
		`{"column":"n","op":"between","value":1}`:             "filters[0]: want two values, [low, high]",
		`{"column":"n","op":"between"}`:                       "filters[0]: want two values, [low, high]",
		`{"column":"n","op":"between","value":[1]}`:           "filters[0]: want two values, [low, high]",
		`{"column":"n","op":"between","value":[1,null]}`:      "filters[0]: the high value: a value may not be null",
		`{"column":"n","op":"not_between","value":["x",2]}`:   "filters[0]: the low value",
		`{"column":"n","op":"ilike","value":"1"}`:             "compares text",
		`{"column":"page","op":"ilike","value":"a\\"}`:        `ends in a \`,
		`{"column":"page","op":"ilike","value":7}`:            "must be a string",
		`{"column":"page","op":"starts_with","value":null}`:   "may not be null",
		`{"column":"n","op":"ends_with","value":"1"}`:         "compares text",
		`{"column":"n","op":"contains","value":1}`:            "contains looks into text, arrays and maps",
		`{"column":"page","op":"contains_any","value":["a"]}`: "contains_any and contains_all look into arrays",
		`{"column":"page","op":"contains","value":["a"]}`:     "must be a string",
		`{"column":"page","op":"ilike","value":"` + strings.Repeat("a", 1025) + `"}`: "longer than 1024 bytes",
	} {
		_, err := build(pages(), policy.OperatorSelect(), `{"columns":["n"],"filters":[`+filter+`]}`)
		e := asError(t, err)
		assert.Equal(t, query.CodeInvalid, e.Code, filter)
		assert.Contains(t, e.Message, want, filter)
	}
	for _, filter := range []string{deep(16), many(999)} {
		_, err := build(pages(), policy.OperatorSelect(), `{"columns":["n"],"filters":[`+filter+`]}`)
		require.NoError(t, err)
	}
	nested := tableOf("nested", nil, "rows", "Array(Array(String))", "state", "Array(Tuple(String, Int8))")
	for _, column := range []string{"rows", "state"} {
		_, err := build(nested, policy.OperatorSelect(), `{"columns":["rows"],"filters":[{"column":"`+column+`","op":"contains","value":["a"]}]}`)
		assert.ErrorContains(t, err, "cannot be compared")
	}
}

// A group is judged behind the row rule when anything in it may fail.
func TestAGroupMayFailWhereAPartOfItMay(t *testing.T) {
	table := pages()
	const sure, unsure = `{"column":"n","op":"eq","value":1}`, `{"column":"page","op":"ilike","value":"a"}`
	for filter, behind := range map[string]bool{
		sure: false, `{"not":` + sure + `}`: false, `{"or":[` + sure + `]}`: false, `{"column":"page","op":"contains","value":"%"}`: false,
		unsure: true, `{"not":{"or":[` + sure + `,{"and":[` + unsure + `]}]}}`: true,
	} {
		s, err := buildBound(t, table, birch(t, table), `{"columns":["n"],"filters":[`+filter+`]}`)
		require.NoError(t, err)
		assert.Equal(t, behind, strings.Contains(s.SQL, " PREWHERE "), "%s: %s", filter, s.SQL)
	}
}

func TestARefusedColumnInsideOfAGroup(t *testing.T) {
	table := pages()
	for _, filter := range []string{
		`{"or":[{"column":"n","op":"eq","value":1},{"column":"secret","op":"eq","value":"x"}]}`, `{"not":{"column":"org","op":"is_null"}}`,
		`{"and":[{"not":{"and":[{"column":"secret","op":"contains","value":""}]}}]}`,
	} {
		_, err := buildBound(t, table, birch(t, table), fmt.Sprintf(`{"columns":["n"],"filters":[%s]}`, filter))
		assert.Equal(t, query.CodeColumnNotAllowed, asError(t, err).Code, filter)
	}
}
