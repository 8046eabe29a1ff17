package query_test

import (
	"encoding/json"
	"regexp"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/query"
)

// timeWords are what is left of a statement about times without its names and
// placeholders.
var timeWords = regexp.MustCompile(`^(?:SELECT|AS|FROM|WHERE|AND|OR|GROUP BY|ORDER BY|WITH FILL|TO|STEP|OVER|LIMIT|FORMAT|JSONEachRow|IS|NOT|NULL|ASC|DESC|INTERVAL|SECOND|DAY|'UTC'|` +
	`toStartOfInterval|toDateTime64|positiveModulo|reinterpretAsInt64|toInt64|intDiv|roundDown|transform|greatest|least|if|assumeNotNull|indexOfAssumeSorted|arrayElement|toNullable|` +
	`throwIf|'time_bucket\.fill: [a-z ,:_0-9]*'|countIf|count|max|maxOrNullIf|min|uniq|wh|c[0-9]+|[0-9.]+|[-+*/ ,()=!<>])*$`)

var timeParameter = regexp.MustCompile(`\{p[0-9]+:(?:Array\(Int64\)|Date32|DateTime64\([0-9], 'UTC'\))\}`)

// FuzzTimes holds that no time, zone or length that a caller writes becomes SQL,
// and that each is answered at once.
func FuzzTimes(f *testing.F) {
	f.Add("24h", "now", "Europe/Berlin", "1d", "previous", uint8(0))
	f.Add("2026-03-01", "2026-04-01", "America/Sao_Paulo", "1mo", "1y", uint8(7))
	f.Add("-1y2mo", "today", "Pacific/Apia", "2h", "7d", uint8(14))
	f.Add("1730615400123", "", "UTC", "15m", "", uint8(5))
	f.Add("1900-01-01T00:00:00Z", "2299-12-31T23:59:59.999Z", "Africa/Monrovia", "400y", "400y", uint8(3))
	f.Add("0001-01-01", "9999-12-31", "Asia/Kolkata", "1s", "999999mo", uint8(1))
	f.Add("'; DROP", "}:String", "../x", "1d') --", "previous'", uint8(2))
	table, everything := types(), policy.OperatorSelect()
	f.Fuzz(func(t *testing.T, since, until, zone, every, compare string, bits uint8) {
		column := []string{"dt", "t6", "d", "d32"}[bits>>1&3]
		bucket := map[string]any{"column": column, "every": every, "time_zone": zone, "fill": bits&1 > 0}
		bounds := map[string]any{"column": column, "since": since, "until": until, "time_zone": zone}
		for _, doc := range []map[string]any{
			{"time_bucket": bucket}, {"time_range": bounds}, {"time_range": bounds, "compare": compare},
			{"time_bucket": bucket, "time_range": bounds, "compare": compare, "group_by": []string{"s"}},
		} {
			doc["aggregations"] = []any{map[string]any{"fn": "count"}, map[string]any{"fn": "max", "column": "dt"}}
			body, err := json.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			parsed, err := query.Parse(body)
			if err != nil {
				continue // a text that is no UTF-8
			}
			began := time.Now()
			s, err := query.Build(parsed, table, everything.Bind(nil, nil), options())
			if took := time.Since(began); took > 20*time.Second {
				t.Fatalf("%s took %s", body, took)
			}
			if err != nil {
				if e := asError(t, err); e.Code != query.CodeInvalid || !utf8.ValidString(e.Message) {
					t.Fatalf("%+v", e)
				}
				continue
			}
			rest := timeParameter.ReplaceAllString(identifier.ReplaceAllString(s.SQL, " "), " ")
			if !timeWords.MatchString(rest) {
				t.Fatalf("a caller's text became SQL: %s\nleft over: %s", s.SQL, rest)
			}
		}
	})
}
