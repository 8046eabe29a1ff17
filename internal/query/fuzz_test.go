package query_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/query"
)

// identifier is a name in backticks; inside, a backslash escapes what follows.
var identifier = regexp.MustCompile("(?s)`(?:[^`\\\\]|\\\\.)*`")

// parameter is a placeholder with a type of the table.
var parameter = regexp.MustCompile(`\{p[0-9]+:(?:String|Int8|U?Int(?:64|256)|Float64|Decimal\(18, 2\)|FixedString\(4\)|Bool|UUID|IPv4|Date|Date32|DateTime\('UTC'\)|DateTime64\([0-9], 'UTC'\))\}`)

// words are all that a statement may hold outside of names and placeholders.
var words = regexp.MustCompile(`^(?:SELECT|AS|FROM|WHERE|AND|OR|match|startsWith|endsWith|has(?:Any|All)?|GROUP BY|HAVING|ORDER BY|LIMIT|OFFSET|FORMAT|JSONEachRow|IS|NOT|NULL|IN|LIKE|ASC|DESC|INTERVAL|SECOND|DAY|WEEK|'UTC'|toStartOfInterval|toDateTime64|positiveModulo|reinterpretAsInt64|toInt64|intDiv|DISTINCT|any|anyLast|arg(?:Max|Min)|OrNull|If|CAST|'Array\(Tuple\(lower Float64, upper Float64, count Float64\)\)'|isFinite|toFloat64|nullIf|topK|group(?:Uniq)?Array|histogram|avg|count|uniqExact|max|median|min|quantiles?|uniq|stddevPop|stddevSamp|sum|varPop|varSamp|wh_*|wh_in_*[0-9]+|v|[0-9.]+|[-*/ ,()=!<>])*$`)

// FuzzBuild holds that nothing a caller writes becomes SQL: take the quoted
// names and the typed placeholders away, and only the builder's words are left.
func FuzzBuild(f *testing.F) {
	f.Add("page", "views", "eq", "x", "1h", "5m", "asc", 0.5, int64(10))
	f.Add("s` FROM x --", "a`b", "eq OR 1", `") OR (1=1`, "2026-01-01T00:00:00Z", "1w", "desc", 1.0, int64(-1))
	f.Add("i8", "wh", "gt", "7", "30m", "1d", "", 1e-300, int64(0))
	f.Add("lc", "wh_in0", "in", "7", "7d", "90s", "asc", 0.0, int64(1<<62))
	f.Add("dt", "\\", "gte", "2026-06-21T04:00:00.5Z", "1h; DROP", "5", "asc, x", -1.0, int64(3))
	table, everything := types(), policy.OperatorSelect()
	f.Fuzz(func(t *testing.T, name, alias, op, value, since, every, dir string, level float64, n int64) {
		for _, pick := range []string{name, "s", "i8", "lc", "dt", "t6", "odd`name\\", "a.b"} {
			body, err := json.Marshal(map[string]any{
				"columns": []string{pick},
				"aggregations": []any{map[string]any{"fn": "quantile", "column": "f", "alias": alias, "params": []float64{level}}, map[string]any{"fn": "count", "column": name},
					map[string]any{"fn": "arg_max", "column": pick, "by": name, "alias": value}, map[string]any{"fn": "top_k", "column": pick, "params": []int64{n}},
					map[string]any{"fn": "histogram", "column": "f"}, map[string]any{"fn": op, "column": pick},
					map[string]any{"fn": "ratio", "alias": dir, "scale": level, "numerator": map[string]any{"fn": "count", "column": name}, "denominator": map[string]any{"fn": "sum", "column": "i8"}}},
				"filters": []any{
					map[string]any{"column": pick, "op": op, "value": value},
					map[string]any{"column": pick, "op": "in", "value": []string{value}},
				},
				"having":   []any{map[string]any{"or": []any{map[string]any{"column": alias, "op": op, "value": value}, map[string]any{"column": pick, "op": op, "value": value}}}},
				"group_by": []string{pick}, "order_by": []any{map[string]any{"column": alias, "dir": dir}},
				"limit": n, "offset": n,
				"time_range":  map[string]any{"column": "dt", "since": since},
				"time_bucket": map[string]any{"column": "dt", "every": every, "alias": alias + name},
			})
			if err != nil {
				return // a level that JSON has no number for
			}
			for _, doc := range parts(body) {
				s, err := query.Build(doc, table, everything.Bind(nil, nil), options())
				if err != nil {
					e := asError(t, err)
					if e.Code != query.CodeInvalid || !utf8.ValidString(e.Message) {
						t.Fatalf("%+v", e)
					}
					continue
				}
				rest := parameter.ReplaceAllString(identifier.ReplaceAllString(s.SQL, " "), " ")
				if !words.MatchString(rest) {
					t.Fatalf("a caller's text became SQL: %s\nleft over: %s", s.SQL, rest)
				}
				if strings.Count(s.SQL, "{") < len(s.Params) {
					t.Fatalf("%d parameters for %s", len(s.Params), s.SQL)
				}
			}
		}
	})
}

// parts returns the document and one document for each of its clauses, so that
// a fault in one does not hide the others.
func parts(body []byte) []*query.Document {
	whole, err := query.Parse(body)
	if err != nil {
		return nil
	}
	docs := []*query.Document{whole}
	for _, f := range whole.Filters {
		docs = append(docs, &query.Document{Columns: []string{"i8"}, Filters: []query.Filter{f}})
	}
	for _, a := range whole.Aggregations {
		docs = append(docs, &query.Document{Aggregations: []query.Aggregation{a}, OrderBy: whole.OrderBy})
		a.Where = whole.Filters
		docs = append(docs, &query.Document{Aggregations: []query.Aggregation{a}, Having: whole.Having})
	}
	if len(whole.Columns) > 0 {
		docs = append(docs, &query.Document{Columns: whole.Columns, Distinct: true, OrderBy: whole.OrderBy}, &query.Document{Columns: whole.Columns, GroupBy: whole.Columns, Having: whole.Filters})
	}
	return append(docs,
		&query.Document{Columns: whole.Columns, TimeRange: whole.TimeRange, Limit: whole.Limit, Offset: whole.Offset},
		&query.Document{Columns: whole.Columns, TimeBucket: whole.TimeBucket, GroupBy: whole.GroupBy},
	)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"columns":["page"],"limit":1,"filters":[{"column":"n","op":"gt","value":1e3}]}`))
	f.Add([]byte(`{"aggregations":[{"fn":"quantile","column":"n","params":[0.5]}],"time_range":{"column":"ts","since":"1h"}}`))
	f.Add([]byte("null"))
	table, everything := types(), policy.OperatorSelect()
	f.Fuzz(func(t *testing.T, body []byte) {
		doc, err := query.Parse(body)
		if err != nil {
			asError(t, err)
			return
		}
		if s, err := query.Build(doc, table, everything.Bind(nil, nil), options()); err != nil {
			asError(t, err)
		} else if rest := parameter.ReplaceAllString(identifier.ReplaceAllString(s.SQL, " "), " "); !words.MatchString(rest) {
			t.Fatalf("a caller's text became SQL: %s\nleft over: %s", s.SQL, rest)
		}
	})
}

func BenchmarkParseAndBuild(b *testing.B) {
	table, everything := pages(), policy.OperatorSelect()
	body := []byte(`{"columns":["page"],"aggregations":[{"fn":"count","column":"*","alias":"views"}],"filters":[{"column":"n","op":"gt","value":10}],
		"group_by":["page"],"order_by":[{"column":"views","dir":"desc"}],"limit":100,"time_range":{"column":"ts","since":"1h"}}`)
	b.ReportAllocs()
	for b.Loop() {
		doc, err := query.Parse(body)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := query.Build(doc, table, everything.Bind(nil, nil), options()); err != nil {
			b.Fatal(err)
		}
	}
}
