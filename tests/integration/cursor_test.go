package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pager reads all pages of a document, which is an object without its end.
func (s *server) pager(table, document string, limit int, between func(page int), headers ...string) (rows []json.RawMessage) {
	s.t.Helper()
	cursor := ""
	for page := 1; ; page++ {
		text := fmt.Sprintf(`%s,"limit":%d,"cursor":%q}`, document, limit, cursor)
		a := s.query(table, text, headers...)
		require.Equal(s.t, http.StatusOK, a.status, "%s\n%s", text, a.body)
		got := decode[[]json.RawMessage](s.t, a)
		rows = append(rows, got...)
		require.NotContains(s.t, a.body, "wh_key")
		cursor = a.header.Get("X-Next-Cursor")
		require.Equal(s.t, a.header.Get("X-Result-Truncated") != "", cursor != "", "page %d of %s ends with %s", page, text, a.header)
		if cursor == "" {
			return rows
		}
		require.Len(s.t, got, limit)
		require.Less(s.t, page, 200, text)
		if between != nil {
			between(page)
		}
	}
}

// orderedTypes has a value of many an order in each column, few of them different.
const orderedTypes = `CREATE TABLE ordered (id UInt32, i8 Nullable(Int8), u64 UInt64, i256 Int256, f Float64, nf Nullable(Float32), dec Decimal(18, 3), s String,
	lc LowCardinality(Nullable(String)), fs FixedString(3), b Bool, u UUID, ip4 IPv4, ip6 IPv6, e Enum8('z' = -1, 'a' = 1, 'b\'}' = 2), d Date, d32 Date32,
	dt DateTime, berlin DateTime('Europe/Berlin'), t3 DateTime64(3, 'America/New_York'), nt Nullable(DateTime64(6)), tup Tuple(x Nullable(Int8), y Tuple(String, Float32)),
	arr Array(Nullable(Int8)), m Map(String, Nullable(Int8)), late UInt8 DEFAULT 0) ENGINE = MergeTree ORDER BY (dt, s)`

func orderedRows(from, n, late int) string {
	return fmt.Sprintf(`INSERT INTO ordered WITH cityHash64(number) AS h, h %% 4 AS v SELECT number, if(v = 3, NULL, v * 60 - 60), if(v = 2, 18446744073709551615, v), (v - 2) * toInt256('1000000000000000000000000000000'),
	multiIf(v = 0, nan, v = 1, -inf, v = 2, 1 / 3, 0.1), if(v = 3, NULL, if(v = 2, nan, v / 3)), toDecimal64((v - 2) / 7, 3), multiIf(v = 0, '', v = 1, 'a\t\\\'"\0', v = 2, unhex('FFFE00'), 'é.N.X'),
	if(v = 3, NULL, if(v = 0, '', 'N')), substring('abc', v), v %% 2, arrayElement([generateUUIDv4(1), '00000000-0000-0000-8000-000000000001', '80000000-0000-0000-0000-000000000001', 'ffffffff-ffff-ffff-ffff-ffffffffffff']::Array(UUID), 2 + v %% 3),
	toIPv4(v * 1000000000), arrayElement(['::1', '2001:db8::1', 'fe80::', '::ffff:1.2.3.4']::Array(IPv6), 1 + v), arrayElement([-1, 1, 2, 1], 1 + v), toDate(v * 20000), toDate32('1950-06-01') + v * 30000,
	toDateTime(v * 1400000000), toDateTime('2026-10-25 00:00:00', 'UTC') + v * 1800, toDateTime64('1969-12-31 23:59:59.500', 3, 'UTC') + toIntervalMillisecond(v * 250), if(v = 3, NULL, toDateTime64('1969-12-31 23:59:59.999999', 6, 'UTC') + toIntervalMicrosecond(v)),
	(if(v = 0, NULL, v), (toString(h %% 2), if(h %% 3 = 0, nan, h %% 3))), [if(v = 0, NULL, v)], map('k', if(v = 0, NULL, v)), %d FROM numbers(%d, %d)`, late, from, n)
}

// Rows that were there when the first page was read are read once each, in order,
// whatever is written before, among and behind them meanwhile.
func TestPagesOfEveryTypeUnderInserts(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, orderedTypes, orderedRows(0, 40, 0))
	require.Equal(t, [][]string{{"4", "3"}}, s.ch.Rows(t, "SELECT uniqExact(t3), uniqExact(nt) FROM ordered"), "times differ by less than a second")
	columns := []string{
		"i8", "u64", "i256", "f", "nf", "dec", "s", "lc", "fs", "b", "u", "ip4", "ip6", "e", "d", "d32", "dt", "berlin", "t3", "nt", "tup",
	}
	for i, column := range columns {
		for _, order := range []string{
			fmt.Sprintf(`[{"column":%q}]`, column),
			fmt.Sprintf(`[{"column":%q,"dir":"desc"},{"column":%q},{"column":"id"}]`, column, columns[(i+5)%len(columns)]),
		} {
			s.ch.Exec(t, "TRUNCATE TABLE ordered", orderedRows(0, 40, 0))
			written := 40
			document := `{"columns":["id","late","m","arr"],"order_by":` + order
			want := s.query("ordered", document+"}").body
			rows := s.pager("ordered", document, 9, func(page int) {
				if page == 1 || page == 3 {
					s.ch.Exec(t, orderedRows(written, 9, 1))
					written += 9
				}
			})
			seen := map[int]int{}
			for _, row := range rows {
				var r struct{ ID, Late int }
				require.NoError(t, json.Unmarshal(row, &r))
				if r.Late == 0 {
					seen[r.ID]++
				}
			}
			require.Len(t, seen, 40, "by %s", order)
			for id, times := range seen {
				require.Equal(t, 1, times, "row %d by %s", id, order)
			}
			if strings.Contains(order, `"id"`) {
				var kept []string
				for _, row := range rows {
					if strings.Contains(string(row), `"late":0`) {
						kept = append(kept, string(row))
					}
				}
				require.JSONEq(t, want, "["+strings.Join(kept, ",")+"]", "by %s", order)
			}
		}
	}
}

// A cut answer whose document asked for no pages has the cursor that its rows show,
// which continues it as pages do; the values of all types are read from their JSON.
func TestAPlainAnswerIsContinuedByWhatItsRowsShow(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, orderedTypes, orderedRows(0, 40, 0))
	continued := map[string]int{}
	columns := []string{"i8", "u64", "i256", "dec", "s", "lc", "b", "u", "ip4", "ip6", "e", "d", "d32", "dt", "berlin", "nt"}
	for _, column := range columns {
		for dir, int64s := range map[string]string{"asc": "number", "desc": "string"} {
			document := fmt.Sprintf(`{"columns":[%q,"id"],"order_by":[{"column":%q,"dir":%q}]`, column, column, dir)
			all := decode[[]json.RawMessage](t, s.query("ordered", document+"}"))
			for limit := 1; limit < 40; limit++ {
				var row, next map[string]json.RawMessage
				require.NoError(t, json.Unmarshal(all[limit-1], &row))
				require.NoError(t, json.Unmarshal(all[limit], &next))
				same := string(row[column]) == string(next[column])
				if same && limit != 5 {
					continue
				}
				plain := fmt.Sprintf(`%s,"limit":%d,"int64":%q`, document, limit, int64s)
				first := s.query("ordered", plain+"}")
				cursor := first.header.Get("X-Next-Cursor")
				if same { // which of them come first is not known
					require.Empty(t, cursor, plain)
					continue
				}
				if cursor == "" {
					require.Contains(t, string(row[column])+string(next[column]), "�", plain)
					continue
				}
				continued[column]++
				seen := map[string]int{}
				for _, body := range []answer{first, s.query("ordered", strings.Replace(plain, fmt.Sprint(`"limit":`, limit), `"limit":99`, 1)+`,"cursor":"`+cursor+`"}`)} {
					require.Equal(t, http.StatusOK, body.status, body.body)
					for _, r := range decode[[]map[string]json.RawMessage](t, body) {
						seen[string(r["id"])]++
					}
				}
				require.Len(t, seen, 40, plain)
			}
		}
	}
	assert.Len(t, continued, len(columns))
	for _, order := range []string{`"f"`, `"nf"`, `"tup"`, `"fs"`} { // whose JSON does not show all of them
		assert.Empty(t, s.query("ordered", `{"columns":["f","nf","tup","fs"],"limit":10,"order_by":[{"column":`+order+`}]}`).header.Get("X-Next-Cursor"))
	}
	assert.Empty(t, s.query("ordered", `{"columns":["id"],"limit":20,"order_by":[{"column":"dt"}]}`).header.Get("X-Next-Cursor"), "ordered by what is not answered")
}

// Rows that are the same to their reader are counted.
func TestPagesOfRowsThatAreTheSame(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, "CREATE TABLE same (a UInt8, b Nullable(String), c UInt32) ENGINE = MergeTree ORDER BY tuple()",
		"INSERT INTO same SELECT number % 2, if(number % 4 < 2, NULL, 'x'), number FROM numbers(50)")
	for _, limit := range []int{1, 2, 3, 12, 13, 49, 50, 51} {
		for _, document := range []string{
			`{"columns":["a"],"order_by":[{"column":"a"}]`, `{"columns":["a","b"],"order_by":[{"column":"b","dir":"desc"}]`,
			`{"columns":["a","c"],"order_by":[{"column":"a"}]`,
		} {
			rows := s.pager("same", document, limit, nil)
			counts := map[string]int{}
			for _, row := range rows {
				counts[string(row)]++
			}
			for row, n := range counts {
				require.Contains(t, []int{1, 12, 13, 25}, n, row)
			}
			require.Len(t, rows, 50, "%s by %d", document, limit)
		}
		assert.Len(t, s.pager("same", `{"columns":["a","b"],"distinct":true,"order_by":[{"column":"b"}]`, limit, nil), 4)
		assert.Len(t, s.pager("same", `{"columns":["b"],"group_by":["b","a"],"aggregations":[{"fn":"count"}],"order_by":[{"column":"b"}]`, limit, nil), 4)
		assert.Len(t, s.pager("same", `{"columns":["c"],"group_by":["c"],"aggregations":[{"fn":"count"}],"order_by":[{"column":"c","dir":"desc"}]`, limit, nil), 50)
	}
}

func TestPagesOfBuckets(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, "CREATE TABLE times (at Nullable(DateTime64(3, 'UTC')), page String) ENGINE = MergeTree ORDER BY tuple()",
		"INSERT INTO times SELECT if(number % 10 = 0, NULL, toDateTime64('1969-12-31 20:00:00', 3, 'UTC') + number * 60), toString(number % 3) FROM numbers(1000)")
	document := `{"time_bucket":{"column":"at","every":"1h","alias":"t"},"columns":["page"],"group_by":["page"],"aggregations":[{"fn":"count"}],"order_by":[{"column":"t","dir":"desc"},{"column":"page"}]`
	want := decode[[]json.RawMessage](t, s.query("times", document+"}"))
	for _, limit := range []int{1, 7, 20, 100} {
		got := s.pager("times", document, limit, nil)
		require.Equal(t, fmt.Sprintf("%s", want), fmt.Sprintf("%s", got))
	}
}

func TestCursorsBelongToWhatTheyWereGivenFor(t *testing.T) {
	t.Parallel()
	s := start(t, options{policies: `{"default_role":"public","tables":{"*":{"public":{"select":{}},
		"viewer":{"select":{"filter":{"org":{"_eq":"{{ jwt.org }}"}},"deny_columns":["secret"]}}}}}`},
		pagesTable, strings.Replace(pagesTable, "pages", "others", 1), "CREATE TABLE tuples (k Map(String, String), n UInt8) ENGINE = MergeTree ORDER BY n",
		"INSERT INTO pages SELECT toString(number), '/', ['birch', 'cedar'][1 + number % 2], 'zzzsecret', number, now64(3) FROM numbers(40)",
		"INSERT INTO others SELECT * FROM pages", "INSERT INTO tuples SELECT map('k', toString(number)), number FROM numbers(40)")
	const document = `"columns":["event_id","n"],"order_by":[{"column":"n"}],"limit":5`
	birch := bearer(t, map[string]any{"role": "viewer", "org": "birch"})
	cedar := bearer(t, map[string]any{"role": "viewer", "org": "cedar"})
	cursor := s.query("pages", `{`+document+`}`, birch...).header.Get("X-Next-Cursor")
	require.NotEmpty(t, cursor)
	with := func(table, document, cursor string, headers ...string) answer {
		return s.query(table, `{`+document+`,"cursor":`+quoted(cursor)+`}`, headers...)
	}
	require.Equal(t, http.StatusOK, with("pages", document, cursor, birch...).status)
	require.Equal(t, http.StatusOK, with("pages", ` "limit": 7, "order_by":[{"column":"n"}], "columns":["event_id","n"]`, cursor, birch...).status, "another limit, and other spaces")
	assert.Equal(t, `[{"event_id":"10","n":10},{"event_id":"12","n":12},{"event_id":"14","n":14},{"event_id":"16","n":16},{"event_id":"18","n":18}]`,
		compact(t, []byte(with("pages", document, cursor, birch...).body)))

	for what, a := range map[string]answer{
		"another caller":   with("pages", document, cursor, cedar...),
		"another role":     with("pages", document, cursor),
		"another table":    with("others", document, cursor, birch...),
		"another document": with("pages", strings.Replace(document, `["event_id","n"]`, `["n","event_id"]`, 1), cursor, birch...),
		"another filter":   with("pages", document+`,"filters":[{"column":"n","op":"gt","value":1}]`, cursor, birch...),
		"nonsense":         with("pages", document, "nonsense", birch...),
		"cut":              with("pages", document, cursor[:len(cursor)-1], birch...),
		"a long one":       with("pages", document, strings.Repeat("A", 5000), birch...),
	} {
		p := refused(t, a, http.StatusBadRequest, "query.cursor_invalid")
		assert.NotContains(t, p.Error, cursor, what)
	}
	for i := range len(cursor) {
		changed := []byte(cursor)
		changed[i] = "BA"[b2i(changed[i] == 'B')]
		refused(t, with("pages", document, string(changed), birch...), http.StatusBadRequest, "query.cursor_invalid")
	}
	for document, says := range map[string]string{
		`"columns":["n"],"limit":5`:                                        "order_by",
		`"columns":["n"],"limit":5,"offset":1,"order_by":[{"column":"n"}]`: "offset",
		`"columns":["page"],"group_by":["page"],"aggregations":[{"fn":"count","alias":"c"}],"limit":5,"order_by":[{"column":"c"}]`: "aggregation",
		`"aggregations":[{"fn":"count","alias":"c"}],"limit":5,"order_by":[{"column":"c"}]`:                                        "one row",
	} {
		p := refused(t, with("pages", document, ""), http.StatusBadRequest, "query.invalid")
		assert.Contains(t, p.Error, says)
		a := s.query("pages", `{`+document+`}`)
		assert.Empty(t, a.header.Get("X-Next-Cursor"), document)
	}
	assert.Contains(t, refused(t, with("tuples", `"columns":["n"],"order_by":[{"column":"k"}],"limit":1`, ""), http.StatusBadRequest, "query.invalid").Error, "Map")
	assert.Contains(t, refused(t, s.query("pages", `{`+document+`,"cursor":""}`, "Accept", "text/csv"), http.StatusBadRequest, "query.invalid").Error, "NDJSON")
	refused(t, s.query("pages", `{`+document+`,"cursor":5}`), http.StatusBadRequest, "query.invalid")

	// What the caller may see is all that its pages have, and the end is told as if
	// there were nothing else.
	assert.Len(t, s.pager("pages", `{"columns":["event_id"],"order_by":[{"column":"page"},{"column":"org","dir":"desc"}]`, 4, nil, birch...), 20)
	a := s.query("pages", `{"columns":["event_id"],"order_by":[{"column":"n"}],"limit":20}`, birch...)
	assert.Empty(t, a.header.Get("X-Result-Truncated")+a.header.Get("X-Next-Cursor"))

	s.restart()
	require.Equal(t, http.StatusOK, with("pages", document, cursor, birch...).status, "after a restart")
	s.ch.Exec(t, "ALTER TABLE pages MODIFY COLUMN n Int32")
	s.ops(http.MethodPost, "/v1/ops/schema/refresh", "")
	p := refused(t, with("pages", document, cursor, birch...), http.StatusBadRequest, "query.cursor_invalid")
	assert.Contains(t, p.Error, "columns changed")
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A page is kept with its cursor, in both spellings of the same rows.
func TestAKeptPageKeepsItsCursor(t *testing.T) {
	t.Parallel()
	s := seeded(t, options{}, `{"event_id":"1"}`, `{"event_id":"2"}`, `{"event_id":"3"}`)
	const document = `{"columns":["event_id"],"order_by":[{"column":"event_id"}],"limit":1}`
	first := s.query("pages", document)
	assert.Equal(t, "MISS", first.header.Get("X-Cache"))
	for _, again := range []string{document, ` ` + document, strings.Replace(document, `"event_id"}`, `"event_id","dir":"asc"}`, 1)} {
		a := s.query("pages", again)
		assert.Equal(t, "limit", a.header.Get("X-Result-Truncated"))
		next := s.query("pages", strings.TrimSuffix(again, "}")+`,"cursor":"`+a.header.Get("X-Next-Cursor")+`"}`)
		require.Equal(t, http.StatusOK, next.status, next.body)
		assert.Equal(t, `[{"event_id":"2"}]`, compact(t, []byte(next.body)))
	}
	s.query("pages", document) // it may have been long ago
	a := s.query("pages", document)
	assert.Equal(t, "HIT", a.header.Get("X-Cache"))
	assert.Equal(t, first.header.Get("X-Next-Cursor"), a.header.Get("X-Next-Cursor"))
	a = s.query("pages", document, "If-None-Match", first.header.Get("ETag"))
	assert.Equal(t, http.StatusNotModified, a.status)
	assert.NotEmpty(t, a.header.Get("X-Next-Cursor"))
	a = s.query("pages", document, "Accept", "application/x-ndjson")
	assert.Equal(t, `{"event_id":"1"}`+"\n", a.body)
	assert.NotEmpty(t, a.header.Get("X-Next-Cursor"))
}

// A page that is too large to be held has no cursor, and says that there is more.
func TestAPageTooLargeToBeHeld(t *testing.T) {
	t.Parallel()
	s := start(t, options{env: []string{"WH_LIMITS_ANSWERS=128MiB"}}, "CREATE TABLE large (id UInt32, text String) ENGINE = MergeTree ORDER BY id",
		`INSERT INTO large SELECT number, repeat('x', 5000) || '"}' FROM numbers(8000)`)
	for limit, cursor := range map[int]bool{1000: true, 5000: false} {
		a := s.query("large", fmt.Sprintf(`{"columns":["id","text"],"order_by":[{"column":"id"}],"limit":%d,"cursor":""}`, limit))
		require.Equal(t, http.StatusOK, a.status)
		assert.Equal(t, "limit", a.header.Get("X-Result-Truncated"))
		assert.Equal(t, cursor, a.header.Get("X-Next-Cursor") != "", "%d rows", limit)
		rows := decode[[]map[string]any](t, a)
		require.Len(t, rows, limit)
		for _, row := range rows {
			require.Len(t, row, 2)
			require.Len(t, row["text"], 5002)
		}
	}
}
