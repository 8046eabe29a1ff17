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

// Every bucket of a range is a row, in zones whose clocks were set in any way.
func TestEmptyBucketsAreRows(t *testing.T) {
	e := startEngine(t)
	e.Exec(t, "CREATE TABLE sparse (ts DateTime64(3, 'UTC'), d Date32, g String) ENGINE = MergeTree ORDER BY ts")
	table := e.describe(t, "sparse")
	r := rand.New(rand.NewPCG(*bucketSeed, 99))
	for _, name := range zones {
		zone, err := time.LoadLocation(name)
		require.NoError(t, err)
		everies := []string{"15m", "40m", "1h", "2h", "1d", "3d", "1w", "1mo", "1q"}
		for _, i := range r.Perm(len(everies))[:4] {
			every := everies[i]
			since := clockTimes(r, zone, 20)[6+r.IntN(14)]
			length := max(lengths[every].seconds, lengths[every].months*30*86400)
			until := since + length*int64(1+r.IntN(8)) + r.Int64N(length)
			counts := map[int64]int{}
			var values []string
			for range 3 {
				at := since + r.Int64N(until-since)
				counts[bucketOf(zone, every, at)]++
				values = append(values, fmt.Sprintf("(fromUnixTimestamp64Milli(toInt64(%d), 'UTC'), '1970-01-01', 'a')", at*1000+5))
			}
			var want []string
			step := min(max(length/8, 60), 4*3600)
			for at, last := since, int64(-1<<60); at < until; at += min(step, max(until-1-at, 1)) {
				if start := bucketOf(zone, every, at); start != last {
					want, last = append(want, fmt.Sprintf(`{"t":%q,"n":%d}`, time.Unix(start, 0).UTC().Format(time.RFC3339), counts[start])), start
				}
			}
			e.Exec(t, "TRUNCATE TABLE sparse", "INSERT INTO sparse VALUES "+strings.Join(values, ", "))
			got := e.rows(t, table, policy.OperatorSelect(), fmt.Sprintf(`{"aggregations":[{"fn":"count","alias":"n"}],
				"time_bucket":{"column":"ts","every":%q,"time_zone":%q,"alias":"t","fill":true},
				"time_range":{"column":"ts","since":%q,"until":%q}}`, every, name, time.Unix(since, 0).UTC().Format(time.RFC3339), time.Unix(until, 0).UTC().Format(time.RFC3339)))
			require.Equal(t, want, got, "%s in %s from %s", every, name, time.Unix(since, 0).UTC())
		}
	}
}

func TestFilledRowsAreOrderedCutAndWrittenLikeOthers(t *testing.T) {
	e := startEngine(t)
	e.Exec(t, "CREATE TABLE visits (ts DateTime, d Nullable(Date), page LowCardinality(String), n Int32, nn Nullable(Int32), s String, a Array(Int8)) ENGINE = MergeTree ORDER BY ts",
		"INSERT INTO visits VALUES ('2026-03-28 10:00:00', '2026-03-28', '/a', 3, NULL, 'x', [1]), ('2026-03-31 10:00:00', '2026-03-31', '/a', 4, 1, 'y', []),"+
			" ('2026-03-29 22:30:00', NULL, '/b', 5, 2, 'z', [2])")
	table := e.describe(t, "visits")
	ask := func(body string) []string { return e.rows(t, table, policy.OperatorSelect(), body) }
	const bucket = `"time_bucket":{"column":"ts","every":"1d","time_zone":"Europe/Berlin","alias":"t","fill":true},`
	const march = `"time_range":{"column":"ts","since":"2026-03-28","until":"2026-04-02","time_zone":"Europe/Berlin"},`
	t.Run("what an empty bucket holds", func(t *testing.T) {
		assert.Equal(t, []string{
			`{"t":"2026-03-27T23:00:00Z","count":1,"sum_n":3,"sum_nn":null,"avg_n":3,"min_n":3,"max_s":"x","uniq_s":1,"any_a":[1],"quantiles_n":[3],"group_array_n":[3],"ratio":1}`,
			`{"t":"2026-03-28T23:00:00Z","count":0,"sum_n":0,"sum_nn":null,"avg_n":null,"min_n":null,"max_s":null,"uniq_s":0,"any_a":[],"quantiles_n":[],"group_array_n":[],"ratio":null}`,
		}, ask(`{"aggregations":[{"fn":"count"},{"fn":"sum","column":"n"},{"fn":"sum","column":"nn"},{"fn":"avg","column":"n"},{"fn":"min","column":"n"},{"fn":"max","column":"s"},{"fn":"uniq","column":"s"},
			{"fn":"any","column":"a"},{"fn":"quantiles","column":"n","params":[0.5]},{"fn":"group_array","column":"n"},{"fn":"ratio","alias":"ratio","numerator":{"fn":"count"},"denominator":{"fn":"count"}}],`+bucket+march+`"limit":2}`))
	})
	t.Run("each group is filled", func(t *testing.T) {
		assert.Equal(t, []string{
			`{"page":"/a","t":"2026-03-31T22:00:00Z","count":0}`, `{"page":"/b","t":"2026-03-31T22:00:00Z","count":0}`,
			`{"page":"/a","t":"2026-03-30T22:00:00Z","count":1}`, `{"page":"/b","t":"2026-03-30T22:00:00Z","count":0}`,
			`{"page":"/a","t":"2026-03-29T22:00:00Z","count":0}`, `{"page":"/b","t":"2026-03-29T22:00:00Z","count":1}`,
			`{"page":"/a","t":"2026-03-28T23:00:00Z","count":0}`,
		}, ask(`{"columns":["page"],"aggregations":[{"fn":"count"}],`+bucket+march+`"group_by":["page"],"order_by":[{"column":"t","dir":"desc"},{"column":"page"}],"limit":7}`))
		assert.Len(t, ask(`{"aggregations":[{"fn":"count"}],`+bucket+march+`"group_by":["page"]}`), 10, "a group that is not shown is one, too")
	})
	t.Run("in the order of time without another", func(t *testing.T) {
		assert.Equal(t, []string{`{"t":"2026-03-28T23:00:00Z","count":0}`, `{"t":"2026-03-29T22:00:00Z","count":1}`},
			ask(`{"aggregations":[{"fn":"count"}],`+bucket+march+`"limit":2,"offset":1}`))
		assert.Equal(t, []string{`{"t":"2026-03-30T22:00:00Z","count":1}`, `{"t":"2026-03-29T22:00:00Z","count":1}`, `{"t":"2026-03-27T23:00:00Z","count":1}`, `{"t":"2026-03-31T22:00:00Z","count":0}`},
			ask(`{"aggregations":[{"fn":"count"}],`+bucket+march+`"order_by":[{"column":"count","dir":"desc"},{"column":"t","dir":"desc"}],"limit":4}`))
	})
	t.Run("between what is found, where there is no bound", func(t *testing.T) {
		assert.Equal(t, []string{`{"t":"2026-03-27T23:00:00Z","count":1}`, `{"t":"2026-03-28T23:00:00Z","count":0}`, `{"t":"2026-03-29T22:00:00Z","count":1}`, `{"t":"2026-03-30T22:00:00Z","count":1}`},
			ask(`{"aggregations":[{"fn":"count"}],`+strings.TrimSuffix(bucket, ",")+`}`))
		assert.Equal(t, []string{`{"t":"2026-03-26T23:00:00Z","count":0}`, `{"t":"2026-03-27T23:00:00Z","count":1}`},
			ask(`{"aggregations":[{"fn":"count"}],`+bucket+`"time_range":{"column":"ts","since":"2026-03-27","time_zone":"Europe/Berlin"},"filters":[{"column":"n","op":"eq","value":3}]}`))
		assert.Empty(t, ask(`{"aggregations":[{"fn":"count"}],`+bucket+`"filters":[{"column":"n","op":"eq","value":99}]}`))
		assert.Len(t, ask(`{"aggregations":[{"fn":"count"}],`+bucket+march+`"filters":[{"column":"n","op":"eq","value":99}]}`), 5, "with both, also where there is no row")
		assert.Empty(t, ask(`{"aggregations":[{"fn":"count"}],`+bucket+`"time_range":{"column":"ts","since":"2026-03-27","until":"2026-03-27"}}`))
	})
	t.Run("dates, and a row without one is in no bucket", func(t *testing.T) {
		assert.Equal(t, []string{`{"d":"2026-03-28T00:00:00Z","count":1}`, `{"d":"2026-03-29T00:00:00Z","count":0}`, `{"d":"2026-03-30T00:00:00Z","count":0}`, `{"d":"2026-03-31T00:00:00Z","count":1}`},
			ask(`{"aggregations":[{"fn":"count"}],"time_bucket":{"column":"d","every":"1d","alias":"d","fill":true}}`))
		assert.Equal(t, []string{`{"d":"2026-02-28T23:00:00Z","count":2}`, `{"d":"2026-03-31T22:00:00Z","count":0}`},
			ask(`{"aggregations":[{"fn":"count"}],"time_bucket":{"column":"d","every":"1mo","alias":"d","time_zone":"Europe/Berlin","fill":true},"time_range":{"column":"d","since":"2026-03-28","until":"2026-04-02"}}`))
		assert.Equal(t, []string{`{"d":"2026-02-28T23:00:00Z","count":2}`},
			ask(`{"aggregations":[{"fn":"count"}],"time_bucket":{"column":"d","every":"1mo","alias":"d","time_zone":"Europe/Berlin","fill":true},"time_range":{"column":"d","since":"2026-03-28","until":"2026-04-01"}}`))
	})
	t.Run("every format", func(t *testing.T) {
		doc, err := query.Parse([]byte(`{"aggregations":[{"fn":"count"}],` + bucket + march + `"limit":2}`))
		require.NoError(t, err)
		for format, want := range map[query.Format]string{
			query.FormatCSV:     "\"t\",\"count\"\n\"2026-03-27T23:00:00Z\",1\n\"2026-03-28T23:00:00Z\",0\n",
			query.FormatNDJSON:  "{\"t\":\"2026-03-27T23:00:00Z\",\"count\":1}\n{\"t\":\"2026-03-28T23:00:00Z\",\"count\":0}\n",
			query.FormatParquet: "PAR1",
		} {
			s, err := query.Build(doc, table, policy.OperatorSelect().Bind(nil, nil), query.Options{Format: format})
			require.NoError(t, err)
			text, err := e.run(t, s)
			require.NoError(t, err)
			assert.True(t, strings.HasPrefix(text, want), "%q", text)
		}
	})
	t.Run("under a row filter", func(t *testing.T) {
		grant := grantOf(t, policy.SelectDocument{Filter: json.RawMessage(`{"page":{"_eq":"/b"}}`)})
		doc, err := query.Parse([]byte(`{"aggregations":[{"fn":"count"}],` + strings.TrimSuffix(bucket, ",") + `}`))
		require.NoError(t, err)
		s, err := query.Build(doc, table, grant.Bind(map[string]any{}, table.Record), options())
		require.NoError(t, err)
		text, err := e.run(t, s)
		require.NoError(t, err)
		assert.JSONEq(t, `[{"t":"2026-03-29T22:00:00Z","count":1}]`, text)
	})
	t.Run("too many", func(t *testing.T) {
		for body, message := range map[string]string{
			`{"aggregations":[{"fn":"count"}],"time_bucket":{"column":"ts","every":"1s","fill":true}}`:                                                   "more than 10000 buckets",
			`{"aggregations":[{"fn":"count"}],"time_bucket":{"column":"ts","every":"1s","fill":true},"time_range":{"column":"ts","since":"2026-03-01"}}`: "more than 10000 buckets",
			`{"aggregations":[{"fn":"count"}],"time_bucket":{"column":"ts","every":"1h","fill":true},"time_range":{"column":"ts","until":"2299-03-01"}}`: "more than 10000 buckets",
		} {
			s, err := build(table, policy.OperatorSelect(), body)
			require.NoError(t, err)
			_, err = e.run(t, s)
			assert.ErrorContains(t, query.Refusal(err.Error()), message)
		}
		assert.Nil(t, query.Refusal("Value passed to 'throwIf' function is non-zero"))
		e.Exec(t, "INSERT INTO visits SELECT '2026-03-28 10:00:00', NULL, toString(number), 1, 1, '', [] FROM numbers(200)")
		s, err := build(table, policy.OperatorSelect(), `{"aggregations":[{"fn":"count"}],"group_by":["page"],"time_bucket":{"column":"ts","every":"1h","fill":true},"time_range":{"column":"ts","since":"2026-01-01","until":"2026-12-01"}}`)
		require.NoError(t, err)
		_, err = e.run(t, s)
		assert.ErrorContains(t, query.Refusal(err.Error()), "more than 1000000 rows")
	})
}

func TestFillsThatAreRefused(t *testing.T) {
	const bucket = `"time_bucket":{"column":"ts","every":"1m","fill":true}`
	for body, message := range map[string]string{
		`"aggregations":[{"fn":"count"}],"totals":true,` + bucket:                                                               "totals",
		`"columns":["n"],` + bucket:                                                                                             "aggregates",
		`"aggregations":[{"fn":"count"}],"having":[{"column":"count","op":"gt","value":1}],` + bucket:                           "having",
		`"aggregations":[{"fn":"count"}],` + bucket + `,"time_range":{"column":"ts","since":"2026-01-01","until":"2026-01-08"}`: "10080 buckets of 1m",
		`"aggregations":[{"fn":"count"}],` + bucket + `,"group_by":["page"],"order_by":[{"column":"page"}]`:                     "ordered by outputs",
	} {
		_, err := build(pages(), policy.OperatorSelect(), `{`+body+`}`)
		refusal := asError(t, err)
		assert.Equal(t, query.CodeInvalid, refusal.Code)
		assert.Contains(t, refusal.Message, message)
	}
}
