package scope

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A tree is trusted for what it says, and for nothing that it might say.
func TestTreesThatAreRefused(t *testing.T) {
	s := &Statement{prefix: "wh_seen", tables: map[string]string{"wh_seen0": "d.t"}}
	const seen = "QUERY id: 0, is_subquery: 1, is_cte: 1, cte_name: wh_seen0\n  JOIN TREE\n    TABLE id: 3, alias: __table1, table_name: d.t\n  PREWHERE\n    CONSTANT id: 4, constant_value: UInt64_1"
	for name, tree := range map[string]string{
		"a table": seen, "nothing": "QUERY id: 0\n  JOIN TREE\n    TABLE id: 9, alias: __table1, table_name: system.one",
		"values":         "QUERY id: 0\n  JOIN TREE\n    TABLE id: 10, table_name: _temporary_and_external_tables._tmp_1, temporary_table_name: wh_seen0_in0",
		"numbers":        "QUERY id: 0\n  JOIN TREE\n    TABLE_FUNCTION id: 5, alias: __table2, table_function_name: numbers",
		"odd names":      "QUERY id: 0\n  PROJECTION COLUMNS\n    TABLE id: 1, table_name: x String\n  PROJECTION\n    LIST id: 1, nodes: 0",
		"a scalar":       "QUERY id: 0\n  PROJECTION\n    LIST id: 1, nodes: 1\n      CONSTANT id: 2, constant_value: 1\n        EXPRESSION\n          " + strings.ReplaceAll(seen, "\n", "\n          "),
		"ordering names": "QUERY id: 0\n  ORDER BY\n    LIST id: 1, nodes: 1\n      SORT id: 2\n        EXPRESSION x",
	} {
		assert.NoError(t, s.judge(strings.Split(tree, "\n")), name)
	}
	for name, tree := range map[string]string{
		"a table without its WITH":     "QUERY id: 0\n  JOIN TREE\n    TABLE id: 3, alias: __table1, table_name: d.t",
		"another table":                strings.ReplaceAll(seen, "d.t", "d.u"),
		"another database":             strings.ReplaceAll(seen, "d.t", "e.t"),
		"another WITH":                 strings.ReplaceAll(seen, "wh_seen0", "wh_seen1"),
		"FINAL":                        strings.ReplaceAll(seen, "d.t", "d.t, final: 1"),
		"beside its WITH":              seen + "\nQUERY id: 8\n  JOIN TREE\n    TABLE id: 9, table_name: d.t",
		"in a query inside":            "QUERY id: 0, cte_name: wh_seen0\n  JOIN TREE\n    QUERY id: 2\n      JOIN TREE\n        TABLE id: 3, table_name: d.t",
		"a table of somebody's values": "QUERY id: 0\n  JOIN TREE\n    TABLE id: 10, table_name: x.y, temporary_table_name: others",
		"a system table":               "QUERY id: 0\n  JOIN TREE\n    TABLE id: 3, table_name: system.tables",
		"a table function":             "QUERY id: 0\n  JOIN TREE\n    TABLE_FUNCTION id: 5, table_function_name: remote",
		"a new node":                   "QUERY id: 0\n  JOIN TREE\n    NOVEL_TABLE id: 5, table_name: d.t",
		"a new line":                   "QUERY id: 0\n  NOVEL TREE",
		"settings":                     "QUERY id: 0\n  SETTINGS max_threads=1",
		"a PREWHERE":                   "QUERY id: 0\n  PREWHERE\n    CONSTANT id: 4, constant_value: UInt64_1",
		"another format":               `{"kind": "QUERY"}`,
		"nothing at all":               "",
	} {
		assert.Error(t, s.judge(strings.Split(tree, "\n")), name)
	}
}

func TestAggregationsOfClickHouseByTheNamesOfPolicies(t *testing.T) {
	for function, want := range map[string]string{
		"sum": "sum", "sumKahan": "sum", "uniqExact": "uniq", "quantileTDigest": "quantile", "medianExact": "median", "stddevSampStable": "stddev_samp",
		"varPop": "var_pop", "VAR_POP": "var_pop", "groupBitXor": "groupBitXor", "corr": "corr",
	} {
		assert.Equal(t, want, aggregationOf(function), function)
	}
}
