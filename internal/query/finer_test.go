package query_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/wavehouse/wavehouse/internal/policy"
)

// A value with more digits than its column is compared exactly: it lies between
// two values of the column, and is equal to none.
func TestValuesFinerThanTheirColumn(t *testing.T) {
	e := startEngine(t)
	e.Exec(t, "CREATE TABLE finest (k Int8, i Int32, u UInt8, w Int256, n Nullable(Int64), d Decimal(9, 2), nd Nullable(Decimal(38, 4)), dt DateTime, ts DateTime64(3, 'UTC'), t Time, t3 Nullable(Time64(3)), a Array(Int8)) ENGINE = MergeTree ORDER BY k",
		"INSERT INTO finest VALUES (1, 1, 1, 1, 1, 0.30, 0.3, '2024-11-03 06:30:00', '2024-11-03 06:30:00.123', '00:00:01', '00:00:01', [1]),"+
			" (2, 2, 2, 2, 2, 0.31, 0.3001, '2024-11-03 06:30:01', '2024-11-03 06:30:00.124', '00:00:02', '00:00:01.001', [2])",
		"INSERT INTO finest (k, i, u, w, n, d, nd, dt, ts, t, t3) VALUES (3, -1, 0, -1, NULL, -0.30, NULL, '1970-01-01 00:00:00', '1955-01-01 00:00:00', '-00:00:01', NULL)")
	table := e.describe(t, "finest")
	ks := func(filter string) string {
		var ks string
		for _, row := range e.rows(t, table, policy.OperatorSelect(), `{"columns":["k"],"order_by":[{"column":"k"}],"filters":[`+filter+`]}`) {
			ks += row[len(`{"k":`) : len(row)-1]
		}
		return ks
	}
	// Each value lies between those of the rows 1 and 2; row 3 is below, or NULL.
	for column, values := range map[string][]string{
		"i": {"1.5", `"1.0000000001"`, "19e-1"}, "u": {"1.5"}, "w": {"1.5"}, "n": {"1.5"},
		"d": {"0.30000000000000004", `"0.301"`, "3099e-4"}, "nd": {"0.30000000000000004"},
		"dt": {"1730615400123", "1730615400.5", `"2024-11-03T06:30:00.5Z"`, `"2024-11-03 06:30:00.5"`, `"1730615400123456"`},
		"ts": {"1730615400.1235", "1730615400123456", `"2024-11-03T07:30:00.1239+01:00"`},
		"t":  {`"00:00:01.5"`}, "t3": {`"00:00:01.0005"`},
	} {
		below, differ := "13", "123"
		if column == "n" || column == "nd" || column == "t3" {
			below, differ = "1", "12"
		}
		for _, value := range values {
			for op, want := range map[string]string{"gt": "2", "gte": "2", "lt": below, "lte": below, "eq": "", "neq": differ} {
				assert.Equal(t, want, ks(fmt.Sprintf(`{"column":%q,"op":%q,"value":%s}`, column, op, value)), "%s %s %s", column, op, value)
				assert.Equal(t, negative(want, differ), ks(fmt.Sprintf(`{"not":{"column":%q,"op":%q,"value":%s}}`, column, op, value)), "not %s %s %s", column, op, value)
			}
			assert.Equal(t, "", ks(fmt.Sprintf(`{"column":%q,"op":"in","value":[%s]}`, column, value)), "%s in %s", column, value)
			assert.Equal(t, differ, ks(fmt.Sprintf(`{"column":%q,"op":"not_in","value":[%s]}`, column, value)), "%s not in %s", column, value)
			assert.Equal(t, "", ks(fmt.Sprintf(`{"column":%q,"op":"between","value":[%s,%s]}`, column, value, value)), "%s between %s", column, value)
		}
	}
	assert.Equal(t, "12", ks(`{"column":"i","op":"between","value":[0.5,2.5]}`))
	assert.Equal(t, "1", ks(`{"column":"i","op":"in","value":[1,1.5]}`))
	assert.Equal(t, "1", ks(`{"column":"i","op":"eq","value":1.0}`), "the same number in other words")
	assert.Equal(t, "2", ks(`{"column":"i","op":"in","value":[20e-1]}`))
	assert.Equal(t, "3", ks(`{"column":"i","op":"lt","value":-0.5}`))
	assert.Equal(t, "12", ks(`{"column":"i","op":"gte","value":-0.5}`))
	assert.Equal(t, "3", ks(`{"column":"d","op":"lt","value":-0.2999999999}`))
	assert.Equal(t, "12", ks(`{"column":"d","op":"gt","value":-0.2999999999}`))
	assert.Equal(t, "3", ks(`{"column":"t","op":"lt","value":"-00:00:00.5"}`))
	// Lengths of time compare as others do.
	assert.Equal(t, "1", ks(`{"column":"t","op":"eq","value":"00:00:01"}`))
	assert.Equal(t, "23", ks(`{"column":"t","op":"in","value":["-00:00:01","00:00:02"]}`))
	assert.Equal(t, "2", ks(`{"column":"t3","op":"gte","value":"00:00:01.001"}`))
	assert.Equal(t, "3", ks(`{"column":"t3","op":"is_null"}`))
}

// negative are the rows that are not among some, of those that are not NULL.
func negative(ks, all string) string {
	var rest string
	for _, k := range all {
		found := false
		for _, other := range ks {
			found = found || other == k
		}
		if !found {
			rest += string(k)
		}
	}
	return rest
}
