package query_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/query"
)

func TestConditionsOfAggregationsAnswerWhatIsWrittenByHand(t *testing.T) {
	e := startEngine(t)
	table := e.orders(t)
	answers{
		{
			`"columns":["shop"],"group_by":["shop"],"order_by":[{"column":"shop"}],"aggregations":[
			{"fn":"count","alias":"all"},{"fn":"count","where":[{"column":"status","op":"eq","value":"paid"}],"alias":"paid"},
			{"fn":"count","column":"tip","where":[{"column":"status","op":"eq","value":"paid"}],"alias":"tipped"},
			{"fn":"sum","column":"price","where":[{"or":[{"column":"tip","op":"is_null"},{"not":{"column":"city","op":"in","value":["oslo"]}}]},{"column":"at","op":"gte","value":"2026-03-29T02:00:00+02:00"}],"alias":"sum"},
			{"fn":"quantile","column":"price","params":[0.5],"where":[{"column":"day","op":"between","value":["2026-03-01","2026-03-02"]}],"alias":"half"},
			{"fn":"arg_max","column":"id","by":"seen","where":[{"column":"status","op":"eq","value":"paid"}],"alias":"last"},
			{"fn":"max","column":"at","where":[{"column":"status","op":"eq","value":"paid"}],"alias":"max"},
			{"fn":"any","column":"city","where":[{"column":"city","op":"like","value":"r%"}],"alias":"any"},
			{"fn":"median","column":"day","where":[{"column":"status","op":"eq","value":"paid"}],"alias":"median"},
			{"fn":"avg","column":"tip","where":[{"column":"status","op":"eq","value":"paid"}],"alias":"avg"},
			{"fn":"top_k","column":"status","where":[{"column":"tags","op":"contains","value":"1"}],"alias":"top"},
			{"fn":"histogram","column":"weight","params":[2],"where":[{"column":"weight","op":"lt","value":4}],"alias":"bins"}]`,
			`SELECT shop, count() AS all, countIf(status = 'paid') AS paid, countIf(tip IS NOT NULL AND status = 'paid') AS tipped,
			sumIf(price, (tip IS NULL OR city NOT IN ('oslo')) AND at >= toDateTime('2026-03-29 00:00:00', 'UTC')) AS sum,
			quantileIf(0.5)(price, day BETWEEN '2026-03-01' AND '2026-03-02') AS half,
			if(paid = 0, NULL, argMaxIf(id, seen, status = 'paid')) AS last, if(paid = 0, NULL, maxIf(at, status = 'paid')) AS max,
			anyIf(city, city LIKE 'r%') AS any, if(paid = 0, NULL, medianIf(day, status = 'paid')) AS median, avgIf(tip, status = 'paid') AS avg,
			topKIf(10)(status, has(tags, '1')) AS top, CAST(histogramIf(2)(weight, weight < 4), 'Array(Tuple(lower Float64, upper Float64, count Float64))') AS bins
			FROM orders GROUP BY shop ORDER BY shop`,
		},
		{
			`"columns":["shop"],"group_by":["shop"],"order_by":[{"column":"shop"}],"aggregations":[{"fn":"ratio","alias":"share",
			"numerator":{"fn":"sum","column":"price","where":[{"column":"status","op":"eq","value":"paid"}]},
			"denominator":{"fn":"sum","column":"price","where":[{"column":"shop","op":"neq","value":"south"}]}}]`,
			`SELECT shop, if(sumIf(price, shop != 'south') = 0, NULL, toFloat64(sumIf(price, status = 'paid')) / toFloat64(sumIf(price, shop != 'south'))) AS share FROM orders GROUP BY shop ORDER BY shop`,
		},
		{`"aggregations":[{"fn":"count","where":[],"alias":"n"},{"fn":"count","where":[{"column":"id","op":"in","value":[]}],"alias":"none"}]`, "SELECT count() AS n, toUInt64(0) AS none FROM orders"},
	}.hold(t, e, table)
}

func TestGroupsAreFilteredByWhatTheyAnswer(t *testing.T) {
	e := startEngine(t)
	table := e.orders(t)
	shops := func(having string) string {
		return `"columns":["shop"],"aggregations":[{"fn":"count","alias":"n"},{"fn":"sum","column":"price","alias":"price"},{"fn":"max","column":"at","alias":"last"},
			{"fn":"any_last","column":"status","alias":"status"},{"fn":"avg","column":"tip","alias":"tip"},{"fn":"group_uniq_array","column":"day","alias":"days"},
			{"fn":"max","column":"at","alias":"paid","where":[{"column":"status","op":"eq","value":"paid"}]}],"group_by":["shop"],"order_by":[{"column":"shop"}],"having":[` + having + `]`
	}
	byHand := func(having string) string {
		return `SELECT shop, count() AS n, sum(price) AS price, max(at) AS last, anyLast(status) AS status, avg(tip) AS tip, groupUniqArray(100)(day) AS days,
			if(countIf(orders.status = 'paid') = 0, NULL, maxIf(at, orders.status = 'paid')) AS paid FROM orders GROUP BY shop HAVING ` + having + ` ORDER BY shop SETTINGS prefer_column_name_to_alias = 0`
	}
	var held answers
	for having, hand := range map[string]string{
		`{"column":"n","op":"gte","value":"20"}`:                                                                              "count() >= 20",
		`{"column":"n","op":"in","value":[20,21]},{"column":"shop","op":"neq","value":"west"}`:                                "count() IN (20, 21) AND shop != 'west'",
		`{"column":"price","op":"gt","value":61.1}`:                                                                           "sum(orders.price) > 61.1",
		`{"column":"price","op":"eq","value":"61.00"}`:                                                                        "sum(orders.price) = toDecimal64(61, 2)",
		`{"column":"last","op":"lt","value":"2026-03-30T07:00:00+02:00"}`:                                                     "max(at) < toDateTime('2026-03-30 05:00:00', 'UTC')",
		`{"column":"last","op":"gt","value":"2026-03-30T04:30:00.5Z"}`:                                                        "max(at) > toDateTime('2026-03-30 04:30:00', 'UTC')",
		`{"column":"status","op":"eq","value":"open"}`:                                                                        "anyLast(orders.status) = 'open'",
		`{"or":[{"column":"tip","op":"between","value":[1.4,1.5]},{"not":{"column":"shop","op":"starts_with","value":"s"}}]}`: "avg(orders.tip) BETWEEN 1.4 AND 1.5 OR shop NOT LIKE 's%'",
		`{"column":"paid","op":"is_null"}`:                                                                                    "countIf(orders.status = 'paid') = 0",
		`{"column":"paid","op":"not_in","value":["2026-03-29T00:00:00Z"]}`:                                                    "countIf(orders.status = 'paid') > 0",
		`{"column":"days","op":"contains","value":"2026-03-04"}`:                                                              "max(day) = '2026-03-04'",
		`{"column":"shop","op":"like","value":"%th"}`:                                                                         "shop LIKE '%th'",
	} {
		held = append(held, struct{ body, sql string }{shops(having), byHand(hand)})
	}
	held = append(held, answers{
		{`"aggregations":[{"fn":"count"}],"having":[{"column":"count","op":"gt","value":60}]`, "SELECT count() AS count FROM orders HAVING count > 60"},
		{`"columns":["city"],"group_by":["city"],"having":[{"column":"city","op":"is_null"}]`, "SELECT NULL AS city"},
		{
			`"aggregations":[{"fn":"count","alias":"at"}],"time_bucket":{"column":"at","every":"6h","alias":"t"},"order_by":[{"column":"t"}],"having":[{"column":"at","op":"eq","value":12},{"column":"t","op":"in","value":["2026-03-29T06:00:00Z","2026-03-29T14:00:00+02:00","2026-03-30T06:00:00Z"]}]`,
			"SELECT toStartOfInterval(at, INTERVAL 6 HOUR, 'UTC') AS t, count() AS n FROM orders GROUP BY t HAVING n = 12 AND t IN (toDateTime('2026-03-29 06:00:00', 'UTC'), toDateTime('2026-03-29 12:00:00', 'UTC')) ORDER BY t",
		},
	}...)
	held[len(held)-1].sql = strings.Replace(held[len(held)-1].sql, "AS n", "AS at", 1)
	held[len(held)-1].sql = strings.Replace(strings.Replace(held[len(held)-1].sql, "n = 12", "count() = 12", 1), "toStartOfInterval(at", "toStartOfInterval(orders.at", 1)
	held.hold(t, e, table)
}

// An aggregation is compared as what it is: each finds its own answer, with every
// digit.
func TestEveryResultIsEqualToItself(t *testing.T) {
	e := startEngine(t)
	table := e.orders(t)
	found := 0
	for _, column := range table.Columns {
		for _, fn := range policy.Aggregations() {
			aggregation := `"int64":"string","aggregations":[{"fn":"` + fn + `","alias":"a","column":"` + column.Name + `"`
			if strings.HasPrefix(fn, "quantile") {
				aggregation += `,"params":[0.5]`
			}
			if strings.HasPrefix(fn, "arg_") {
				aggregation += `,"by":"id"`
			}
			s, err := build(table, policy.OperatorSelect(), `{`+aggregation+`}]}`)
			if err != nil {
				continue // no aggregation of this column
			}
			text, err := e.run(t, s)
			if err != nil {
				continue // nor has ClickHouse one
			}
			var rows []map[string]json.RawMessage
			require.NoError(t, json.Unmarshal([]byte(text), &rows))
			value := string(rows[0]["a"])
			if value == "null" {
				value = `"inf"` // of floats
			}
			having := `{` + aggregation + `}],"having":[{"column":"a","op":"eq","value":` + value + `}]}`
			s, err = build(table, policy.OperatorSelect(), having)
			if strings.HasPrefix(value, "[") {
				assert.ErrorContains(t, err, "cannot be compared", having)
				continue
			}
			require.NoError(t, err, having)
			again, err := e.run(t, s)
			require.NoError(t, err, s.SQL)
			if column.Name != "weight" {
				assert.Equal(t, text, again, s.SQL)
			}
			found++
		}
	}
	assert.Greater(t, found, 80)
}

func TestRefusedConditionsOfGroups(t *testing.T) {
	for body, message := range map[string]string{
		`"columns":["n"],"having":[{"column":"n","op":"gt","value":1}]`:                                                                          "filters",
		`"aggregations":[{"fn":"count","alias":"views"}],"having":[{"column":"view","op":"gt","value":1}]`:                                       `did you mean "views"?`,
		`"aggregations":[{"fn":"count"}],"having":[{"column":"page","op":"eq","value":"x"}]`:                                                     "neither an aggregation",
		`"aggregations":[{"fn":"count"}],"having":[{"column":"no such","op":"eq","value":"x"}]`:                                                  "neither an aggregation",
		`"columns":["page"],"group_by":["org"],"having":[{"column":"page","op":"eq","value":"x"}]`:                                               "neither an aggregation",
		`"aggregations":[{"fn":"count"}],"having":[{"column":"count","op":"gt","value":"x"}]`:                                                    "UInt64",
		`"aggregations":[{"fn":"count"}],"having":[{"column":"count","op":"gt","value":-1}]`:                                                     "UInt64",
		`"aggregations":[{"fn":"max","column":"ts"}],"having":[{"column":"max_ts","op":"gt","value":"soon"}]`:                                    "DateTime64(3",
		`"aggregations":[{"fn":"top_k","column":"n"}],"having":[{"column":"top_k_n","op":"eq","value":[1]}]`:                                     "cannot be compared",
		`"aggregations":[{"fn":"count"}],"having":[{"column":"count","op":"like","value":"1%"}]`:                                                 "text",
		`"aggregations":[{"fn":"count","where":[{"column":"count","op":"gt","value":1}]}]`:                                                       "aggregations[0].where[0]",
		`"aggregations":[{"fn":"count","where":[{"column":"n","op":"gt","value":"x"}]}]`:                                                         "aggregations[0].where[0]",
		`"aggregations":[{"fn":"ratio","where":[],"numerator":{"fn":"count"},"denominator":{"fn":"count"}}]`:                                     "numerator and a denominator",
		`"aggregations":[{"fn":"ratio","numerator":{"fn":"count","where":[{"column":"n","op":"gt"}]},"denominator":{"fn":"count"}}]`:             "aggregations[0].numerator.where[0]",
		`"aggregations":[{"fn":"count","where":[` + strings.TrimSuffix(strings.Repeat(`{"column":"n","op":"is_null"},`, 1001), ",") + `]}]`:      "1000 conditions",
		`"aggregations":[{"fn":"count"}],"having":[` + strings.TrimSuffix(strings.Repeat(`{"column":"count","op":"is_null"},`, 1001), ",") + `]`: "1000",
	} {
		_, err := build(pages(), policy.OperatorSelect(), `{`+body+`}`)
		refusal := asError(t, err)
		assert.Equal(t, query.CodeInvalid, refusal.Code, body)
		assert.Contains(t, refusal.Message, message)
	}
	// What a role may not read it may not ask about, wherever.
	grant := grantOf(t, policy.SelectDocument{DenyColumns: []string{"secret"}})
	for _, body := range []string{
		`"aggregations":[{"fn":"count","where":[{"column":"secret","op":"eq","value":"x"}]}]`,
		`"aggregations":[{"fn":"arg_max","column":"page","by":"secret"}]`, `"aggregations":[{"fn":"arg_max","column":"secret","by":"page"}]`,
		`"aggregations":[{"fn":"ratio","numerator":{"fn":"count","column":"secret"},"denominator":{"fn":"count"}}]`,
		`"columns":["secret"],"distinct":true`, `"aggregations":[{"fn":"count"}],"group_by":["secret"],"having":[{"column":"secret","op":"eq","value":"x"}]`,
	} {
		_, err := build(pages(), grant, `{`+body+`}`)
		assert.Equal(t, query.CodeColumnNotAllowed, asError(t, err).Code, body)
	}
	for _, fn := range []string{"count", "top_k"} {
		_, err := build(pages(), grantOf(t, policy.SelectDocument{DeniedAggregations: []string{fn}}), `{"aggregations":[{"fn":"ratio","numerator":{"fn":"max","column":"n"},"denominator":{"fn":"`+fn+`","column":"n"}}]}`)
		assert.Equal(t, query.CodeAggregationNotAllowed, asError(t, err).Code)
	}
}
