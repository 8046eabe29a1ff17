package query

import (
	"maps"
	"regexp"
	"strings"

	"github.com/wavehouse/wavehouse/internal/record"
)

// What fails on a value must not be asked of a hidden row: its failure would
// say that the row is there, and ClickHouse's message would quote the value.
// The row rule stands first in WHERE, but ClickHouse judges first what is
// cheapest to read. A stored column is compared with a value of its own type,
// which never fails; a pattern may, and so may what is computed as it is read,
// be it compared or put out.

// condition is a part of WHERE.
type condition struct {
	sql string
	// mayFail: its verdict may be an error that depends on the row.
	mayFail bool
}

func texts(conditions []condition) []string {
	sql := make([]string, len(conditions))
	for i, c := range conditions {
		sql[i] = c.sql
	}
	return sql
}

// keepsOrder has ClickHouse judge the conditions as they are written. It is
// what can be done for a view, whose expressions are not known here.
var keepsOrder = map[string]string{
	"allow_reorder_prewhere_conditions":           "0",
	"move_primary_key_columns_to_end_of_prewhere": "0",
	"short_circuit_function_evaluation":           "enable",
}

// keepOrder adds keepsOrder to the settings where it matters. An index that holds
// values is asked by computing the conditions on them, those of hidden rows
// included, before there are rows.
func (b *builder) keepOrder(settings map[string]string) {
	if !b.ruled || len(b.where)+len(b.having) < 2 {
		return
	}
	if !b.mergeTree() {
		maps.Copy(settings, keepsOrder)
	}
	if !b.mergeTree() || b.cols.computes {
		settings["use_skip_indexes"] = "0"
	}
}

// filters returns the conditions of PREWHERE and of WHERE. Only the rows that
// PREWHERE lets through are there when WHERE is judged and the outputs are
// computed.
func (b *builder) filters() (prewhere, where []string) {
	if !b.ruled || !b.mergeTree() || !b.mayFail() {
		return nil, texts(b.where)
	}
	for _, c := range b.where {
		if c.mayFail {
			where = append(where, c.sql)
		} else {
			prewhere = append(prewhere, c.sql)
		}
	}
	return prewhere, where
}

// sortedLast keeps ClickHouse from dropping rows by a sort key before it judges
// the rule, as it does for a LIMIT by a plain column: it would compute the key
// of every row for that.
func (b *builder) sortedLast(key string) string {
	if b.ruled && !b.mergeTree() && !strings.HasPrefix(key, "materialize(") {
		return "materialize(" + key + ")"
	}
	return key
}

func (b *builder) mergeTree() bool { return strings.HasSuffix(b.cols.table.Engine, "MergeTree") }

// judgedLater takes note of conditions of an aggregation or a group. They have
// only rows that WHERE lets through, unless ClickHouse judges them earlier.
func (b *builder) judgedLater(conditions []condition) {
	for _, c := range conditions {
		b.risky = b.risky || c.mayFail
	}
}

// mayFail reports whether anything that the document asks for may fail.
func (b *builder) mayFail() bool {
	if b.risky || b.cols.computes {
		return true
	}
	for _, c := range b.where {
		if c.mayFail {
			return true
		}
	}
	return false
}

// harmless are the default expressions that fail for no row: literals, and the
// functions of time and chance that take no column.
var harmless = regexp.MustCompile(`^(-?[0-9]+(\.[0-9]+)?|'[^'\\]*'|NULL|true|false|\[\]|(now|now64|today|generateUUIDv4|generateUUIDv7)\([0-9]*\))$`)

// computed reports whether a column may be an expression over others as it is
// read: an ALIAS always is, and every other one with an expression is in the
// parts that were written before the column was there.
func computed(def record.Column) bool {
	switch {
	case def.DefaultKind == record.DefaultAlias:
		return true
	case def.DefaultExpression == "":
		return false
	}
	return !harmless.MatchString(def.DefaultExpression)
}
