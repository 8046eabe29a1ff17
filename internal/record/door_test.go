package record_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/record"
)

// What is taken at the door is what ClickHouse takes: random records for a table
// with every type, Nested included, of which none that is accepted may be refused
// by an INSERT.
func TestARecordThatIsTakenIsTakenByClickHouse(t *testing.T) {
	e := newEngine(t)
	var columns []record.Column
	create := "CREATE OR REPLACE TABLE door ("
	add := func(name, typeText string) {
		if len(columns) > 0 {
			create += ", "
		}
		create += fmt.Sprintf("`%s` %s", name, typeText)
		columns = append(columns, record.Column{Name: name, Type: typeText, Position: len(columns) + 1})
	}
	values := map[string][]string{}
	for i, c := range corpus {
		name := fmt.Sprintf("c%d", i)
		add(name, c.typeText)
		values[name] = c.values
	}
	for _, nested := range []string{"n", "m.x"} {
		for member, typeText := range map[string]string{"a": "Array(UInt8)", "b": "Array(Nullable(String))", "c": "Array(Array(Int8))"} {
			add(nested+"."+member, typeText)
			values[nested+"."+member] = map[string][]string{
				"a": {"[]", "[1]", "[1,2]"}, "b": {"[]", `["x"]`, `["x",null]`}, "c": {"[]", "[[1]]", "[[],[2]]"},
			}[member]
		}
	}
	e.run(create+") ENGINE = Memory", nil, "")
	table := record.Compile("door", columns, time.UTC)
	random := rand.New(rand.NewPCG(7, 11))
	taken, refused := 0, 0
	for range 600 {
		body := []byte("{")
		for _, c := range columns {
			if random.IntN(50) > 0 && c.Name[0] == 'c' || random.IntN(4) > 0 && c.Name[0] != 'c' {
				continue
			}
			if len(body) > 1 {
				body = append(body, ',')
			}
			key, _ := json.Marshal(c.Name)
			body = append(append(append(body, key...), ':'), values[c.Name][random.IntN(len(values[c.Name]))]...)
		}
		d := table.NewDecoder(record.JSON, append(body, '}'), record.DecodeOptions{MissingAsZero: true})
		require.True(t, d.Next())
		r := d.Record()
		if r.Err != nil {
			refused++
			continue
		}
		taken++
		answer, failed := e.try("INSERT INTO door ("+named(t, table, r.Set)+") FORMAT RowBinary", r.Row, "")
		assert.False(t, failed, "%s: %s", body, answer)
	}
	t.Logf("%d taken, %d refused", taken, refused)
	assert.Greater(t, taken, 50)
	assert.Greater(t, refused, 50)
}

// named are the columns of a set, for an INSERT.
func named(t *testing.T, table *record.Table, set *record.ColumnSet) string {
	t.Helper()
	list := ""
	for i, column := range set.Columns() {
		if i > 0 {
			list += ", "
		}
		list += "`" + table.Columns()[column].Name + "`"
	}
	return list
}

// A row that was accepted before this rule can still be read.
func TestAStoredRowMayHoldWhatTheDoorRefuses(t *testing.T) {
	lines, err := record.ParseLines(`[{"name":"j","type":"JSON"}]`, time.UTC)
	require.NoError(t, err)
	_, err = lines.AppendRows(nil, []byte("[5]\n"), 1)
	require.NoError(t, err)
}

func TestAJSONColumnTakesObjectsAlone(t *testing.T) {
	table := record.Compile("docs", []record.Column{{Name: "j", Type: "JSON", Position: 1}, {Name: "n", Type: "Nullable(JSON)", Position: 2}}, time.UTC)
	for body, code := range map[string]string{
		`{"j":{}}`: "", `{"j":{"a":[1]},"n":{}}`: "", `{"j":{},"n":null}`: "",
		`{"j":[]}`: record.CodeTypeMismatch, `{"j":5}`: record.CodeTypeMismatch, `{"j":"{}"}`: record.CodeTypeMismatch, `{"j":{},"n":true}`: record.CodeTypeMismatch,
	} {
		d := table.NewDecoder(record.JSON, []byte(body), record.DecodeOptions{})
		require.True(t, d.Next())
		got := ""
		if err := d.Record().Err; err != nil {
			got = err.Code
		}
		assert.Equal(t, code, got, body)
	}
}
