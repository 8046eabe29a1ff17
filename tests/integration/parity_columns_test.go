package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// columnKind is a type of column and the JSON values that rows and rules draw
// from: few, so that they often meet.
type columnKind struct {
	typ    string
	values []string
	// defaults are default expressions that such a column may have.
	defaults []string
	// decidable: the predicate must not withhold a row that carries it.
	decidable bool
	// finer are values with more digits than the column has, for rules alone.
	finer []string
}

// finerValues are by the type of their column.
func finerValues() map[string][]string {
	return map[string][]string{
		"Int8": {"0.5", "-0.5", "1.0", `"-1.5"`, "126.999"}, "Nullable(Int16)": {"4.5", "5.5", "5e0"}, "UInt8": {"0.5", "254.5"},
		"Int64": {"9007199254740992.5", "-0.1"}, "UInt256": {"0.5", "1e-9"}, "Decimal(9, 2)": {"1.495", "-1.495", "-1.505", "1.500", "0.30000000000000004"},
		"Nullable(Decimal(38, 10))": {"1.00000000005", "1.00000000015"}, "DateTime": {`"2026-01-02T03:04:05.5Z"`, "0.5", "1767323045001"},
		"DateTime64(3, 'UTC')":    {`"2026-01-02T03:04:05.6785Z"`, "1767323045678999"},
		"Nullable(DateTime64(9))": {`"2026-01-02T03:04:05.0000000015Z"`}, "Time": {`"00:00:01.5"`, `"-00:00:01.5"`}, "Nullable(Time64(3))": {`"-00:00:00.0005"`, `"00:00:01.0009"`},
	}
}

func columnKinds() []columnKind {
	scalar := func(typ string, values ...string) columnKind {
		return columnKind{typ: typ, values: values, decidable: true}
	}
	texts := []string{`"a"`, `"b"`, `"ab"`, `"A"`, `"a%"`, `"a_b"`, `"a\\b"`, `"é"`, `"日本"`, `"a\u0000b"`, `"\n"`, `" a"`, `"z'); --"`, `"1"`}
	kinds := []columnKind{
		{typ: "String", values: texts, defaults: []string{"''", "'a'", `'z\'); --'`, "toString(id)", "NULL"}, decidable: true},
		scalar("Nullable(String)", append(texts, "null")...),
		scalar("LowCardinality(String)", texts...),
		{typ: "LowCardinality(Nullable(String))", values: append(texts, "null"), defaults: []string{"NULL", "'b'"}, decidable: true},
		scalar("FixedString(4)", `"a"`, `"ab"`, `"abcd"`, `"a\u0000b"`, `"b"`),
		{typ: "Int8", values: []string{"-128", "-1", "0", "1", "127"}, defaults: []string{"0", "-1", "1 + 1"}, decidable: true},
		scalar("Nullable(Int16)", "-32768", "0", "5", "32767", "null"),
		{typ: "Int64", values: []string{"-9223372036854775808", "0", "9007199254740992", "9007199254740993", "9223372036854775807"}, defaults: []string{"0", "9007199254740993"}, decidable: true},
		{typ: "UInt64", values: []string{"0", "9007199254740992", "9007199254740993", "18446744073709551615"}, defaults: []string{"7", "rand64()"}, decidable: true},
		scalar("UInt8", "0", "1", "255"), scalar("UInt32", "0", "1", "4294967295"),
		scalar("Int128", "-170141183460469231731687303715884105728", "0", "1", "170141183460469231731687303715884105727"),
		scalar("UInt256", "0", "1", "115792089237316195423570985008687907853269984665640564039457584007913129639935"),
		scalar("Int256", "-1", "0", "1"),
		scalar("Float64", "0", "-0.0", "1.5", "-1.5", "1e300", `"NaN"`, `"Infinity"`, `"-Infinity"`, "0.1"),
		scalar("Nullable(Float32)", "0", "1.5", "0.1", `"NaN"`, `"-Infinity"`, "null"),
		scalar("Decimal(9, 2)", "0", "1.5", "-1.50", "9999999.99"), scalar("Nullable(Decimal(38, 10))", "0", "1.0000000001", "null"),
		scalar("Decimal(76, 3)", "0.001", "-1", "99999999999999999999999999"),
		{typ: "Bool", values: []string{"true", "false"}, defaults: []string{"true", "false"}, decidable: true},
		scalar("Nullable(Bool)", "true", "false", "null"),
		scalar("UUID", `"61f0c404-5cb3-11e7-907b-a6006ad3dba0"`, `"00000000-0000-0000-0000-000000000001"`, `"01000000-0000-0000-0000-000000000000"`, `"ffffffff-ffff-ffff-ffff-ffffffffffff"`),
		scalar("IPv4", `"0.0.0.1"`, `"1.0.0.0"`, `"10.0.0.255"`, `"255.255.255.255"`),
		scalar("Nullable(IPv6)", `"::1"`, `"2001:db8::1"`, `"1.2.3.4"`, "null"),
		scalar("Enum8('a' = 2, 'b' = 1, 'it\\'s' = -5)", `"a"`, `"b"`, `"it's"`), scalar("Nullable(Enum16('x' = 1000, 'y' = 2))", `"x"`, `"y"`, "null"),
		scalar("Date", `"1970-01-01"`, `"2026-01-02"`, `"2149-06-06"`), scalar("Nullable(Date32)", `"1900-01-01"`, `"2026-01-02"`, `"2299-12-31"`, "null"),
		{typ: "DateTime", values: []string{`"2026-01-02T03:04:05Z"`, `"2026-01-02T05:04:05+02:00"`, "0", `"2106-02-07T06:28:15Z"`}, defaults: []string{"now()"}, decidable: true},
		scalar("DateTime('Asia/Kolkata')", `"2026-01-02T03:04:05Z"`, `"2026-01-02 08:34:05"`, `"2026-01-02T03:04:06Z"`),
		scalar("DateTime64(3, 'UTC')", `"2026-01-02T03:04:05.678Z"`, `"2026-01-02T03:04:05.679Z"`, `"1900-01-01T00:00:00Z"`),
		scalar("Nullable(DateTime64(9))", `"2026-01-02T03:04:05.000000001Z"`, `"2026-01-02T03:04:05.000000002Z"`, "null"),
		scalar("Time", `"00:00:01"`, `"-00:00:01"`, `"00:00:02"`, `"-00:00:02"`, `"999:59:59"`), scalar("Nullable(Time64(3))", `"00:00:01.000"`, `"-00:00:00.001"`, `"00:00:00"`, "null"),
		{typ: "SimpleAggregateFunction(max, UInt32)", values: []string{"0", "1", "2"}},
		// Of these only whether they are NULL can be asked.
		{typ: "Array(String)", values: []string{`[]`, `["a"]`}, decidable: true}, {typ: "Map(String, Int8)", values: []string{`{}`, `{"a":1}`}, decidable: true},
		{typ: "Tuple(a Int8, b String)", values: []string{`{"a":1,"b":"x"}`}, decidable: true},
	}
	for i := range kinds {
		kinds[i].finer = finerValues()[kinds[i].typ]
	}
	return kinds
}

// generatedColumn is a column of a generated table.
type generatedColumn struct {
	columnKind
	name, clause string
	computed     bool
}

// parityColumns makes up to n columns beside id.
func parityColumns(r *rand.Rand, n int) []generatedColumn {
	names := []string{"org", "a.b", "odd`name\\", "wh", "wh.org", "_and_", "SELECT", "日本", "with space", "quote'", "n", "x"}
	kinds := columnKinds()
	var columns []generatedColumn
	for i := range n {
		c := generatedColumn{columnKind: kinds[r.IntN(len(kinds))], name: "c" + strconv.Itoa(i)}
		// An array with a dot in its name is a part of a Nested column.
		if i < len(names) && r.IntN(2) == 0 && !strings.HasPrefix(c.typ, "Array") {
			c.name = names[i]
		}
		if len(c.defaults) > 0 && r.IntN(2) == 0 {
			c.clause = " DEFAULT " + c.defaults[r.IntN(len(c.defaults))]
			if c.clause == " DEFAULT NULL" && !strings.Contains(c.typ, "Nullable") {
				c.clause = ""
			}
		}
		columns = append(columns, c)
	}
	return append(columns,
		generatedColumn{columnKind: columnKind{typ: "String", values: []string{`"1"`, `"2"`}}, name: "made", clause: " MATERIALIZED toString(id % 3)", computed: true},
		generatedColumn{columnKind: columnKind{typ: "UInt8", values: []string{"0", "1"}}, name: "also", clause: " ALIAS id % 2", computed: true})
}

func (c *generatedColumn) composite() bool {
	return strings.HasPrefix(c.typ, "Array") || strings.HasPrefix(c.typ, "Map") || strings.HasPrefix(c.typ, "Tuple")
}

func (c *generatedColumn) value(r *rand.Rand) string { return c.values[r.IntN(len(c.values))] }

// rowJSON makes a record that carries the columns of the given mask.
func rowJSON(r *rand.Rand, id int, columns []generatedColumn, carried []bool) []byte {
	row := fmt.Appendf(nil, `{"id":%d`, id)
	for i := range columns {
		if carried[i] && !columns[i].computed {
			key, _ := json.Marshal(columns[i].name)
			row = append(append(append(append(row, ','), key...), ':'), columns[i].value(r)...)
		}
	}
	return append(row, '}')
}

// ruleMaker makes filters, and the claims that they refer to.
type ruleMaker struct {
	r       *rand.Rand
	columns []generatedColumn
	claims  map[string]any
	// unfit are the claims that are no value of their column.
	unfit []string
	// used are the columns that the filter names.
	used []int
}

func (m *ruleMaker) rule(depth int) map[string]any {
	rule := map[string]any{}
	for range 1 + m.r.IntN(2) {
		switch m.r.IntN(6) {
		case 0, 1:
			if depth == 0 {
				continue
			}
			rule[[]string{"_and", "_or"}[m.r.IntN(2)]] = m.rules(depth - 1)
		case 2:
			if depth > 0 {
				rule["_not"] = m.rule(depth - 1)
			}
		default:
			i := m.r.IntN(len(m.columns))
			m.used = append(m.used, i)
			rule[m.columns[i].name] = m.operators(&m.columns[i])
		}
	}
	if len(rule) == 0 {
		return m.rule(0)
	}
	return rule
}

func (m *ruleMaker) rules(depth int) []any {
	var list []any
	if i := m.r.IntN(len(m.columns)); m.r.IntN(5) == 0 && !m.columns[i].composite() {
		// ClickHouse rewrites chains of equalities.
		m.used = append(m.used, i)
		op := []string{"_eq", "_neq"}[m.r.IntN(2)]
		for range 3 + m.r.IntN(2) {
			list = append(list, map[string]any{m.columns[i].name: map[string]any{op: m.scalar(&m.columns[i])}})
		}
		return list
	}
	for range 1 + m.r.IntN(3) {
		list = append(list, m.rule(depth))
	}
	return list
}

func (m *ruleMaker) operators(c *generatedColumn) map[string]any {
	operators := map[string]any{}
	for range 1 + m.r.IntN(4)/3 {
		switch n := m.r.IntN(12); {
		case n == 0 || c.composite():
			operators["_is_null"] = m.r.IntN(2) == 0
		case n == 1:
			operators["_in"] = m.list(c)
		case n == 2:
			operators["_nin"] = m.list(c)
		case n <= 5 && strings.Contains(c.typ, "String"):
			operators["_like"] = m.pattern()
		default:
			name := []string{"_eq", "_neq", "_gt", "_gte", "_lt", "_lte"}[m.r.IntN(6)]
			operators[name] = m.scalar(c)
		}
	}
	return operators
}

func (m *ruleMaker) pattern() any {
	pieces := []string{"a", "b", "%", "_", `\%`, `\_`, `\\`, "é", "日", "%%", "a_", "\n", "'"}
	var s strings.Builder
	for range 1 + m.r.IntN(4) {
		s.WriteString(pieces[m.r.IntN(len(pieces))])
	}
	if m.r.IntN(4) == 0 {
		return "{{ " + m.claim([]string{"a", "%", "_", `b\`, "é"}[m.r.IntN(5)]) + " }}%"
	}
	return s.String()
}

// scalar is a value of the column, as a literal or as a claim.
func (m *ruleMaker) scalar(c *generatedColumn) any {
	value := c.value(m.r)
	for value == "null" || value == `"NaN"` {
		value = c.value(m.r)
	}
	literal := json.RawMessage(value)
	if len(c.finer) > 0 && m.r.IntN(3) == 0 {
		return json.RawMessage(c.finer[m.r.IntN(len(c.finer))])
	}
	switch m.r.IntN(5) {
	case 0, 1:
		return "{{ " + m.claim(decodeNumbers(value)) + " }}"
	case 2:
		if m.r.IntN(4) == 0 {
			unfit := []any{nil, map[string]any{}, []any{"a"}, "", []any{}, "not a value of anything"}[m.r.IntN(6)]
			if strings.Contains(c.typ, "String") && unfit == "not a value of anything" {
				unfit = nil
			}
			m.unfit = append(m.unfit, m.claim(unfit))
			return "{{ " + m.unfit[len(m.unfit)-1] + " }}"
		}
	}
	return literal
}

func (m *ruleMaker) list(c *generatedColumn) any {
	var items, claims []any
	for range 1 + m.r.IntN(3) {
		value := c.value(m.r)
		if value == "null" || value == `"NaN"` {
			value = c.values[0]
		}
		items, claims = append(items, json.RawMessage(value)), append(claims, decodeNumbers(value))
	}
	if m.r.IntN(2) == 0 {
		return "{{ " + m.claim(claims) + " }}"
	}
	if len(c.finer) > 0 && m.r.IntN(3) == 0 {
		items = append(items, json.RawMessage(c.finer[m.r.IntN(len(c.finer))]))
	}
	return items
}

// sound reports whether every claim that the filter names fits its column.
func (m *ruleMaker) sound(filter []byte) bool {
	return !slices.ContainsFunc(m.unfit, func(claim string) bool { return bytes.Contains(filter, []byte(" "+claim+" ")) })
}

// claim files a claim and returns its path.
func (m *ruleMaker) claim(value any) string {
	name := "c" + strconv.Itoa(len(m.claims))
	m.claims[name] = map[string]any{"v": value}
	return "jwt." + name + ".v"
}

func decodeNumbers(value string) any {
	decoder := json.NewDecoder(strings.NewReader(value))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		panic(err)
	}
	return v
}
