package query_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/query"
)

func TestAPeriodComparedWithAnEarlierOne(t *testing.T) {
	e := startEngine(t)
	e.Exec(t, "CREATE TABLE sales (ts DateTime64(3, 'UTC'), d Date, shop LowCardinality(String), org String, n Nullable(Int32)) ENGINE = MergeTree ORDER BY ts",
		// A sale each hour of 2023 to 2026, its number the hour of the year.
		"INSERT INTO sales SELECT toDateTime('2023-01-01 00:00:00', 'UTC') + number * 3600 AS t, t, ['a', 'b', 'c'][1 + number % 3], ['x', 'y'][1 + number % 2], number FROM numbers(35064)")
	table := e.describe(t, "sales")
	ask := func(body string) []string { return e.rows(t, table, policy.OperatorSelect(), `{`+body+`}`) }
	const count = `"aggregations":[{"fn":"count","alias":"n"}],`
	const march = `"time_range":{"column":"ts","since":"2026-03-01","until":"2026-04-01"}`
	by := func(every, zone string) string {
		return `,"time_bucket":{"column":"ts","every":"` + every + `","time_zone":"` + zone + `","alias":"t"},"order_by":[{"column":"t"}]`
	}

	t.Run("as a whole", func(t *testing.T) {
		assert.Equal(t, []string{`{"n":744,"n_previous":744}`}, ask(count+march+`,"compare":"previous"`))
		assert.Equal(t, []string{`{"n":744,"n_previous":672}`}, ask(count+march+`,"compare":"1mo"`))
		assert.Equal(t, []string{`{"n":744,"n_previous":744}`}, ask(count+march+`,"compare":"previous_year"`))
		assert.Equal(t, []string{`{"n":672,"n_previous":696}`}, ask(count+`"compare":"2y","time_range":{"column":"ts","since":"2026-02-01","until":"2026-03-01"}`))
		assert.Equal(t, []string{`{"n":5,"n_previous":5}`}, ask(count+`"compare":"previous","time_range":{"column":"ts","since":"5h"}`), "until now")
		assert.Equal(t, []string{`{"n":24,"n_previous":23}`}, ask(count+`"compare":"previous","time_range":{"column":"ts","since":"2026-03-30","until":"2026-03-31","time_zone":"Europe/Berlin"}`), "a day before a day is one of 23 hours")
		assert.Equal(t, []string{`{"n":23,"n_previous":24}`}, ask(count+`"compare":"previous","time_range":{"column":"ts","since":"2026-03-29","until":"2026-03-30","time_zone":"Europe/Berlin"}`))
		assert.Equal(t, []string{`{"n":48,"n_previous":48}`}, ask(count+`"compare":"previous","time_range":{"column":"d","since":"2026-03-29","until":"2026-03-31","time_zone":"Europe/Berlin"}`))
	})
	t.Run("what each function says", func(t *testing.T) {
		const a, b = "ts >= '2026-03-01'", "ts < '2026-03-01'"
		var want []string
		for _, f := range []string{"countIf(%s)", "sumIf(n, %s)", "maxIf(n, %s)", "uniqExactIf(shop, %s)", "countIf(shop = 'a' AND %s)", "countIf(shop = 'a' AND %[1]s) / countIf(%[1]s)"} {
			want = append(want, fmt.Sprintf(f, a), fmt.Sprintf(f, b))
		}
		want = e.Rows(t, "SELECT "+strings.Join(want, ", ")+" FROM sales WHERE ts >= '2026-02-01' AND ts < '2026-04-01'")[0]
		row := ask(`"aggregations":[{"fn":"count"},{"fn":"sum","column":"n"},{"fn":"max","column":"n"},{"fn":"count_distinct","column":"shop"},
			{"fn":"count","where":[{"column":"shop","op":"eq","value":"a"}],"alias":"a"},{"fn":"ratio","alias":"r","numerator":{"fn":"count","where":[{"column":"shop","op":"eq","value":"a"}]},"denominator":{"fn":"count"}}],
			"compare":"1mo",` + march)[0]
		var got []string
		for _, field := range strings.Split(strings.Trim(row, "{}"), ",") {
			_, value, _ := strings.Cut(field, ":")
			got = append(got, value)
		}
		assert.Equal(t, want, got)
	})
	t.Run("groups of either period", func(t *testing.T) {
		assert.Equal(t, []string{`{"shop":"a","count":1,"count_previous":0,"min_n":24,"min_n_previous":null}`, `{"shop":"c","count":0,"count_previous":1,"min_n":null,"min_n_previous":23}`},
			ask(`"columns":["shop"],"aggregations":[{"fn":"count"},{"fn":"min","column":"n"}],"group_by":["shop"],"order_by":[{"column":"count_previous"}],"compare":"previous","time_range":{"column":"ts","since":"2023-01-02T00:00:00Z","until":"2023-01-02T01:00:00Z"}`))
	})
	t.Run("days over a change of clocks", func(t *testing.T) {
		assert.Equal(t, []string{
			`{"t":"2026-03-28T23:00:00Z","n":23,"n_previous":24}`, `{"t":"2026-03-29T22:00:00Z","n":24,"n_previous":24}`,
		}, ask(count+`"compare":"previous","time_range":{"column":"ts","since":"2026-03-29","until":"2026-03-31","time_zone":"Europe/Berlin"}`+by("1d", "Europe/Berlin")))
		assert.Equal(t, []string{
			`{"t":"2026-03-29T22:00:00Z","n":24,"n_previous":24}`, `{"t":"2026-03-30T22:00:00Z","n":24,"n_previous":23}`,
		}, ask(count+`"compare":"previous","time_range":{"column":"ts","since":"2026-03-30","until":"2026-04-01","time_zone":"Europe/Berlin"}`+by("1d", "Europe/Berlin")))
	})
	t.Run("months", func(t *testing.T) {
		assert.Equal(t, []string{`{"t":"2025-01-01T00:00:00Z","n":744,"n_previous":744}`, `{"t":"2025-02-01T00:00:00Z","n":672,"n_previous":696}`, `{"t":"2025-03-01T00:00:00Z","n":744,"n_previous":744}`},
			ask(count+`"compare":"previous_year","time_range":{"column":"ts","since":"2025-01-01","until":"2025-04-01"}`+by("1mo", "")))
		// 29 February 2024 counts as the day before, 29 to 31 March have no day of February.
		assert.Equal(t, []string{`{"t":"2025-02-28T00:00:00Z","n":24,"n_previous":48}`, `{"t":"2025-03-01T00:00:00Z","n":24,"n_previous":24}`},
			ask(count+`"compare":"previous_year","time_range":{"column":"ts","since":"2025-02-28","until":"2025-03-02"}`+by("1d", "")))
		rows := ask(count + `"compare":"1mo",` + march + by("1d", ""))
		require.Len(t, rows, 31)
		assert.Equal(t, []string{`{"t":"2026-03-27T00:00:00Z","n":24,"n_previous":24}`, `{"t":"2026-03-28T00:00:00Z","n":24,"n_previous":24}`, `{"t":"2026-03-29T00:00:00Z","n":24,"n_previous":0}`}, rows[26:29])
	})
	t.Run("dates", func(t *testing.T) {
		assert.Equal(t, []string{`{"t":"2026-03-28T23:00:00Z","n":24,"n_previous":24}`, `{"t":"2026-03-29T22:00:00Z","n":24,"n_previous":24}`},
			ask(count+`"compare":"previous","time_range":{"column":"d","since":"2026-03-29","until":"2026-03-31"},"time_bucket":{"column":"d","every":"1d","time_zone":"Europe/Berlin","alias":"t"},"order_by":[{"column":"t"}]`))
	})
	t.Run("empty buckets", func(t *testing.T) {
		assert.Equal(t, []string{`{"t":"2023-01-01T23:00:00Z","n":1,"n_previous":1}`, `{"t":"2023-01-02T00:00:00Z","n":0,"n_previous":0}`, `{"t":"2023-01-02T01:00:00Z","n":0,"n_previous":1}`},
			ask(count+`"compare":"4h","filters":[{"column":"n","op":"in","value":[19,21,23]}],"time_range":{"column":"ts","since":"2023-01-01T23:00:00Z","until":"2023-01-02T02:00:00Z"},"time_bucket":{"column":"ts","every":"1h","alias":"t","fill":true}`))
	})
	t.Run("under a row filter", func(t *testing.T) {
		grant := grantOf(t, policy.SelectDocument{Filter: json.RawMessage(`{"org":{"_eq":"x"}}`)})
		doc, err := query.Parse([]byte(`{` + count + march + `,"compare":"previous"}`))
		require.NoError(t, err)
		s, err := query.Build(doc, table, grant.Bind(map[string]any{}, table.Record), options())
		require.NoError(t, err)
		text, err := e.run(t, s)
		require.NoError(t, err)
		assert.JSONEq(t, `[{"n":372,"n_previous":372}]`, text)
	})
	t.Run("a row of the earlier period is in the bucket that began as long after", func(t *testing.T) {
		r := rand.New(rand.NewPCG(*bucketSeed, 7))
		for _, name := range []string{"Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe"} {
			zone, err := time.LoadLocation(name)
			require.NoError(t, err)
			for _, every := range []string{"1h", "2h", "1d", "1w"} {
				first := time.Date(2025, time.Month(1+r.IntN(12)), 1+r.IntN(28), 0, 0, 0, 0, zone)
				days := 1 + r.IntN(9)
				last := first.AddDate(0, 0, days)
				current, earlier := map[int64]int{}, map[int64]int{}
				hour := func(t time.Time) time.Time { return t.Add(time.Hour - 1).Truncate(time.Hour) }
				for at := hour(first); at.Before(last); at = at.Add(time.Hour) {
					current[bucketOf(zone, every, at.Unix())]++
				}
				for at := hour(first.AddDate(0, 0, -days)); at.Before(first); at = at.Add(time.Hour) {
					// The last bucket whose beginning, as many days before, is not after it.
					to := bucketOf(zone, every, first.Unix())
					for start := range current {
						local := time.Unix(start, 0).In(zone)
						before := firstShown(zone, time.Date(local.Year(), local.Month(), local.Day()-days, local.Hour(), local.Minute(), 0, 0, time.UTC).Unix())
						if before <= at.Unix() && start > to {
							to = start
						}
					}
					earlier[to]++
				}
				rows := ask(fmt.Sprintf(count+`"compare":"previous","time_range":{"column":"ts","since":%q,"until":%q}`, first.Format(time.RFC3339), last.Format(time.RFC3339)) + by(every, name))
				assert.Len(t, rows, len(current))
				for _, row := range rows {
					var got struct {
						T        time.Time
						N        int
						Previous int `json:"n_previous"`
					}
					require.NoError(t, json.Unmarshal([]byte(row), &got))
					start := got.T.Unix()
					if localTime(zone, start-3600) == localTime(zone, start) {
						continue // the second of an hour that is shown twice, whose first has what was a day before
					}
					require.Equal(t, current[start], got.N, "%s by %s in %s", row, every, name)
					require.Equal(t, earlier[start], got.Previous, "%s by %s in %s from %s for %d days", row, every, name, first, days)
				}
			}
		}
	})
}

func TestComparisonsThatAreRefused(t *testing.T) {
	const since = `"time_range":{"column":"ts","since":"2026-03-01","until":"2026-04-01"}`
	for body, message := range map[string]string{
		`"columns":["n"],"compare":"previous",` + since:                                                                               "aggregations",
		`"aggregations":[{"fn":"count"}],"compare":"previous"`:                                                                        "time_range.since",
		`"aggregations":[{"fn":"count"}],"compare":"previous","time_range":{"column":"ts","until":"2026-03-01"}`:                      "time_range.since",
		`"aggregations":[{"fn":"count"}],"compare":"previous","time_range":{"column":"ts","since":"2026-03-01","until":"2026-03-01"}`: "empty",
		`"aggregations":[{"fn":"count"}],"compare":"last",` + since:                                                                   "neither",
		`"aggregations":[{"fn":"count"}],"compare":"0d",` + since:                                                                     "neither",
		`"aggregations":[{"fn":"count"}],"compare":"-7d",` + since:                                                                    "neither",
		`"aggregations":[{"fn":"count"}],"compare":"7d",` + since:                                                                     "reaches into",
		`"aggregations":[{"fn":"count"}],"compare":"9999y",` + since:                                                                  "outside what the column",
		`"aggregations":[{"fn":"count"},{"fn":"sum","column":"n","alias":"count_previous"}],"compare":"previous",` + since:            "two outputs",
		`"aggregations":[{"fn":"count"}],"compare":"previous","time_bucket":{"column":"ts","every":"1m"},` + since:                    "44640 buckets",
		`"aggregations":[{"fn":"count"}],"compare":"previous","time_bucket":{"column":"ts","every":"1d","time_zone":"x"},` + since:    "time_bucket.time_zone",
	} {
		_, err := build(pages(), policy.OperatorSelect(), `{`+body+`}`)
		refusal := asError(t, err)
		assert.Equal(t, query.CodeInvalid, refusal.Code)
		assert.Contains(t, refusal.Message, message, body)
	}
	_, err := build(types(), policy.OperatorSelect(), `{"aggregations":[{"fn":"count"}],"compare":"36h","time_range":{"column":"d","since":"2026-03-01","until":"2026-03-02"}}`)
	assert.ErrorContains(t, err, "whole days")
	_, err = build(types(), policy.OperatorSelect(), `{"aggregations":[{"fn":"count"}],"compare":"1y","time_bucket":{"column":"dt","every":"1d"},"time_range":{"column":"d","since":"2026-03-01","until":"2026-03-02"}}`)
	assert.ErrorContains(t, err, "different columns")
}
