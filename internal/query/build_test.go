package query_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/query"
)

type params = map[string]string

func TestStatements(t *testing.T) {
	cases := []struct {
		name, body, sql string
		params          params
	}{
		{
			"columns", `{"columns":["page","n"]}`,
			"SELECT wh.`page` AS `page`, wh.`n` AS `n` FROM `pages` AS wh LIMIT 1000 FORMAT JSONEachRow", params{},
		},
		{
			"the whole document",
			`{"columns":["page"],"aggregations":[{"fn":"count","column":"*","alias":"views"},{"fn":"sum","column":"n"}],
			  "filters":[{"column":"n","op":"gt","value":10},{"column":"page","op":"neq","value":"/a\tb"}],
			  "group_by":["page"],"order_by":[{"column":"views","dir":"desc"},{"column":"page"}],"limit":100,"offset":20,
			  "time_range":{"column":"ts","since":"1h","until":""},
			  "time_bucket":{"column":"ts","every":"5m","alias":"t"}}`,
			"SELECT wh.`page` AS `page`, toDateTime64(intDiv(reinterpretAsInt64(wh.`ts`) - positiveModulo(reinterpretAsInt64(wh.`ts`), toInt64(300000)), 1000), 0, 'UTC') AS `t`, count() AS `views`, sum(wh.`n`) AS `sum_n`" +
				" FROM `pages` AS wh WHERE wh.`n` > {p0:Int64} AND wh.`page` != {p1:String} AND wh.`ts` >= {p2:DateTime64(3, 'UTC')}" +
				" GROUP BY toDateTime64(intDiv(reinterpretAsInt64(wh.`ts`) - positiveModulo(reinterpretAsInt64(wh.`ts`), toInt64(300000)), 1000), 0, 'UTC'), wh.`page` ORDER BY count() DESC, wh.`page` ASC LIMIT 100 OFFSET 20 FORMAT JSONEachRow",
			params{"p0": "10", "p1": `/a\tb`, "p2": "2026-03-04 04:06:00.000"},
		},
		{
			"a bucket without aggregations groups nothing", `{"columns":["n"],"time_bucket":{"column":"ts","every":"1d"}}`,
			"SELECT wh.`n` AS `n`, toDateTime64(intDiv(reinterpretAsInt64(wh.`ts`) - positiveModulo(reinterpretAsInt64(wh.`ts`), toInt64(86400000)), 1000), 0, 'UTC') AS `time_bucket` FROM `pages` AS wh LIMIT 1000 FORMAT JSONEachRow", params{},
		},
		{
			"a bucket named like its column is what group_by and order_by mean",
			`{"aggregations":[{"fn":"count"}],"time_bucket":{"column":"ts","every":"2w","alias":"ts"},"group_by":["ts"],"order_by":[{"column":"ts","dir":"asc"}]}`,
			"SELECT toDateTime64(intDiv(reinterpretAsInt64(wh.`ts`) - positiveModulo(reinterpretAsInt64(wh.`ts`) - 345600000, toInt64(1209600000)), 1000), 0, 'UTC') AS `ts`, count() AS `count` FROM `pages` AS wh" +
				" GROUP BY toDateTime64(intDiv(reinterpretAsInt64(wh.`ts`) - positiveModulo(reinterpretAsInt64(wh.`ts`) - 345600000, toInt64(1209600000)), 1000), 0, 'UTC')" +
				" ORDER BY toDateTime64(intDiv(reinterpretAsInt64(wh.`ts`) - positiveModulo(reinterpretAsInt64(wh.`ts`) - 345600000, toInt64(1209600000)), 1000), 0, 'UTC') ASC LIMIT 1000 FORMAT JSONEachRow", params{},
		},
		{
			"every aggregation",
			`{"aggregations":[{"fn":"count","column":"n"},{"fn":"count_distinct","column":"page"},{"fn":"uniq","column":"page"},
			  {"fn":"avg","column":"n"},{"fn":"min","column":"ts"},{"fn":"max","column":"page"},{"fn":"any","column":"org"},
			  {"fn":"median","column":"n"},{"fn":"quantile","column":"n","params":[0.95]},{"fn":"quantiles","column":"n","params":[0, 5e-1, 1]},
			  {"fn":"stddev_pop","column":"n"},{"fn":"stddev_samp","column":"n"},{"fn":"var_pop","column":"n"},{"fn":"var_samp","column":"n"}]}`,
			"SELECT count(wh.`n`) AS `count_n`, uniqExact(wh.`page`) AS `count_distinct_page`, uniq(wh.`page`) AS `uniq_page`, avg(wh.`n`) AS `avg_n`," +
				" min(wh.`ts`) AS `min_ts`, max(wh.`page`) AS `max_page`, any(wh.`org`) AS `any_org`, median(wh.`n`) AS `median_n`," +
				" quantile(0.95)(wh.`n`) AS `quantile_n`, quantiles(0.0, 0.5, 1.0)(wh.`n`) AS `quantiles_n`, stddevPop(wh.`n`) AS `stddev_pop_n`," +
				" stddevSamp(wh.`n`) AS `stddev_samp_n`, varPop(wh.`n`) AS `var_pop_n`, varSamp(wh.`n`) AS `var_samp_n`" +
				" FROM `pages` AS wh LIMIT 1000 FORMAT JSONEachRow", params{},
		},
		{
			"null, like and the other ops",
			`{"columns":["n"],"filters":[{"column":"page","op":"is_null"},{"column":"page","op":"is_not_null"},
			  {"column":"page","op":"like","value":"/a%"},{"column":"page","op":"not_like","value":"_\\%"},
			  {"column":"n","op":"eq","value":"9007199254740993"},{"column":"n","op":"gte","value":-1},{"column":"n","op":"lt","value":2},{"column":"n","op":"lte","value":3}]}`,
			"SELECT wh.`n` AS `n` FROM `pages` AS wh WHERE wh.`page` IS NULL AND wh.`page` IS NOT NULL AND wh.`page` LIKE {p0:String} AND wh.`page` NOT LIKE {p1:String}" +
				" AND wh.`n` = {p2:Int64} AND wh.`n` >= {p3:Int64} AND wh.`n` < {p4:Int64} AND wh.`n` <= {p5:Int64} LIMIT 1000 FORMAT JSONEachRow",
			params{"p0": "/a%", "p1": `_\\%`, "p2": "9007199254740993", "p3": "-1", "p4": "2", "p5": "3"},
		},
		{
			"a qualifier that no name can be confused with", `{"aggregations":[{"fn":"count","alias":"wh"},{"fn":"sum","column":"n","alias":"wh_.n"}]}`,
			"SELECT count() AS `wh`, sum(wh__.`n`) AS `wh_.n` FROM `pages` AS wh__ LIMIT 1000 FORMAT JSONEachRow", params{},
		},
		{
			"an alias is quoted whatever it holds", `{"aggregations":[{"fn":"count","alias":"a` + "`" + `b\\ FROM x; --\u0000"}]}`,
			"SELECT count() AS `a\\`b\\\\ FROM x; --\\0` FROM `pages` AS wh LIMIT 1000 FORMAT JSONEachRow", params{},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s, err := build(pages(), policy.OperatorSelect(), c.body)
			require.NoError(t, err)
			assert.Equal(t, c.sql, s.SQL)
			assert.Equal(t, c.params, s.Params)
			assert.Empty(t, s.External)
		})
	}
}

func TestSelectAllReadsWhatTheRoleMayRead(t *testing.T) {
	s, err := build(types(), policy.OperatorSelect(), `{"select_all":true}`)
	require.NoError(t, err)
	assert.NotContains(t, s.SQL, "gone", "an EPHEMERAL column holds nothing")
	assert.NotContains(t, s.SQL, "*")
	assert.Contains(t, s.SQL, "wh.`made` AS `made`")
	assert.Contains(t, s.SQL, "wh.`odd\\`name\\\\` AS `odd\\`name\\\\`, wh.`made`")

	s, err = build(pages(), grantOf(t, policy.SelectDocument{DenyColumns: []string{"secret", "org"}}), `{"select_all":true}`)
	require.NoError(t, err)
	assert.Equal(t, "SELECT wh.`event_id` AS `event_id`, wh.`page` AS `page`, wh.`n` AS `n`, wh.`ts` AS `ts` FROM `pages` AS wh LIMIT 1000 FORMAT JSONEachRow", s.SQL)
}

func TestEveryClauseChecksItsColumns(t *testing.T) {
	grant := grantOf(t, policy.SelectDocument{DenyColumns: []string{"secret"}})
	bodies := map[string]string{
		"columns":      `{"columns":["%"]}`,
		"aggregations": `{"aggregations":[{"fn":"min","column":"%"}]}`,
		"count":        `{"aggregations":[{"fn":"count","column":"%"}]}`,
		"filters":      `{"columns":["n"],"filters":[{"column":"%","op":"eq","value":"x"}]}`,
		"null filter":  `{"columns":["n"],"filters":[{"column":"%","op":"is_null"}]}`,
		"in filter":    `{"columns":["n"],"filters":[{"column":"%","op":"in","value":["x"]}]}`,
		"like filter":  `{"columns":["n"],"filters":[{"column":"%","op":"like","value":"x"}]}`,
		"group_by":     `{"aggregations":[{"fn":"count"}],"group_by":["%"]}`,
		"order_by":     `{"columns":["n"],"order_by":[{"column":"%"}]}`,
		"time_range":   `{"columns":["n"],"time_range":{"column":"%","since":"1h"}}`,
		"time_bucket":  `{"columns":["n"],"time_bucket":{"column":"%","every":"1h"}}`,
	}
	for clause, body := range bodies {
		t.Run(clause, func(t *testing.T) {
			_, err := build(pages(), grant, replace(body, "secret"))
			assert.Equal(t, query.CodeColumnNotAllowed, asError(t, err).Code)
			assert.Equal(t, "secret", asError(t, err).Column)
			denied := asError(t, err).Message
			for _, name := range []string{"nope", "*", "", "secret ", "Secret", "wh.secret", "`secret`", "org) OR (1=1"} {
				if name == "*" && clause == "count" || name == "" && clause == "count" {
					continue
				}
				_, err = build(pages(), policy.OperatorSelect(), replace(body, name))
				assert.Equal(t, query.CodeInvalid, asError(t, err).Code, name)
				_, err = build(pages(), grant, replace(body, name))
				if e := asError(t, err); name != "*" && name != "" {
					assert.Equal(t, query.CodeColumnNotAllowed, e.Code, name)
				}
			}
			// What is denied and what is not there are answered alike.
			for _, absent := range []string{"sicret", "socret"} {
				_, err = build(pages(), grant, replace(body, absent))
				assert.Equal(t, denied, strings.ReplaceAll(asError(t, err).Message, absent, "secret"))
			}
			_, err = build(types(), policy.OperatorSelect(), replace(body, "gone"))
			assert.Equal(t, query.CodeInvalid, asError(t, err).Code)
		})
	}
}

func TestAnUnknownColumnIsNotMadeUpForWithOneThatIsHidden(t *testing.T) {
	_, err := build(pages(), policy.OperatorSelect(), `{"columns":["secert"]}`)
	assert.ErrorContains(t, err, `did you mean "secret"?`)
	_, err = build(pages(), grantOf(t, policy.SelectDocument{DenyColumns: []string{"secret"}}), `{"columns":["secert"]}`)
	assert.NotContains(t, err.Error(), "secret")
	_, err = build(pages(), policy.OperatorSelect(), `{"columns":["*"]}`)
	assert.ErrorContains(t, err, "select_all")
}

func TestARoleThatMayReadNoColumnOfTheTableCountsNothing(t *testing.T) {
	grant := grantOf(t, policy.SelectDocument{AllowColumns: []string{"elsewhere"}})
	_, err := build(pages(), grant, `{"aggregations":[{"fn":"count"}]}`)
	assert.Equal(t, query.CodeColumnNotAllowed, asError(t, err).Code)
}

func TestAggregationsARoleMayNotUse(t *testing.T) {
	grant := grantOf(t, policy.SelectDocument{DeniedAggregations: []string{"quantile"}})
	for _, body := range []string{
		`{"aggregations":[{"fn":"quantile","column":"n","params":[0.5]}]}`,
		`{"aggregations":[{"fn":"median","column":"n"}]}`,
	} {
		_, err := build(pages(), grant, body)
		assert.Equal(t, query.CodeAggregationNotAllowed, asError(t, err).Code)
	}
	_, err := build(pages(), grant, `{"aggregations":[{"fn":"count"}]}`)
	assert.NoError(t, err)
}

func TestSettings(t *testing.T) {
	fixed := map[string]string{
		"readonly": "2", "cancel_http_readonly_queries_on_client_close": "1",
		"max_result_bytes": "268435456", "result_overflow_mode": "throw",
		"date_time_output_format": "iso", "output_format_json_escape_forward_slashes": "0",
		"output_format_json_quote_denormals": "0", "output_format_json_validate_utf8": "1", "output_format_json_quote_64bit_integers": "0",
		"output_format_json_quote_decimals": "0", "output_format_json_array_of_rows": "1",
	}
	s, err := build(pages(), policy.OperatorSelect(), `{"columns":["n"]}`)
	require.NoError(t, err)
	assert.Equal(t, fixed, s.Settings)

	fixed["output_format_json_quote_64bit_integers"], fixed["output_format_json_quote_decimals"] = "1", "1"
	fixed["max_rows_to_read"], fixed["max_execution_time"] = "7", "2"
	grant := grantOf(t, policy.SelectDocument{MaxRowsToRead: 7, MaxExecutionTime: 2 * time.Second})
	s, err = build(pages(), grant, `{"columns":["n"],"int64":"string"}`)
	require.NoError(t, err)
	assert.Equal(t, fixed, s.Settings)
}

func TestFormats(t *testing.T) {
	doc, err := query.Parse([]byte(`{"columns":["n"]}`))
	require.NoError(t, err)
	for format, want := range map[query.Format]string{
		query.FormatJSON: "JSONEachRow", query.FormatNDJSON: "JSONEachRow", query.FormatCSV: "CSVWithNames", query.FormatTSV: "TabSeparatedWithNames",
		query.FormatArrow: "ArrowStream", query.FormatParquet: "Parquet",
	} {
		s, err := query.Build(doc, pages(), policy.OperatorSelect().Bind(nil, nil), query.Options{Format: format, MaxResultBytes: 5})
		require.NoError(t, err)
		assert.Equal(t, "SELECT wh.`n` AS `n` FROM `pages` AS wh FORMAT "+want, s.SQL, "no cap of anyone's, no LIMIT")
		_, array := s.Settings["output_format_json_array_of_rows"]
		assert.Equal(t, format == query.FormatJSON, array)
		assert.Equal(t, "5", s.Settings["max_result_bytes"])
	}
	s, err := query.Build(&query.Document{Columns: []string{"n"}, Offset: query.Count{N: 3, Set: true}}, pages(), policy.OperatorSelect().Bind(nil, nil), query.Options{})
	require.NoError(t, err)
	assert.Contains(t, s.SQL, " LIMIT 9223372036854775807 OFFSET 3 ")
}
