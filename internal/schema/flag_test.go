package schema

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// What an engine makes of a column is judged when the row arrives, as ClickHouse
// judges it when it is written.
func TestFlagsOfEnginesAreJudgedAsClickHouseDoes(t *testing.T) {
	r := newRig(t, false)
	tables := []struct{ name, columns, engine, flag, row string }{
		{"collapsing", "id UInt8, sign Int8", "CollapsingMergeTree(sign)", "sign", "(1, %s)"},
		{"odd", "`the sign` Int8 DEFAULT 1, id UInt8", "CollapsingMergeTree(`the sign`)", "the sign", "(%s, 1)"},
		{"versioned", "id UInt8, v UInt8, sign Int8", "VersionedCollapsingMergeTree(sign, v)", "sign", "(1, 1, %s)"},
		{"replacing", "id UInt8, v UInt8, gone UInt8", "ReplacingMergeTree(v, gone)", "gone", "(1, 1, %s)"},
		{"latest", "id UInt8, v UInt8", "ReplacingMergeTree(v)", "v", "(1, %s)"},
		{"plain", "id UInt8, sign Int8", "MergeTree", "sign", "(1, %s)"},
	}
	for _, table := range tables {
		r.server.Exec(t, fmt.Sprintf("CREATE TABLE %s (%s) ENGINE = %s ORDER BY id", table.name, table.columns, table.engine))
	}
	found, err := Discover(t.Context(), r.pools, tenant.Default)
	require.NoError(t, err)
	refused := 0
	for _, table := range tables {
		known, _ := found.Table(table.name)
		index, ok := known.Record.Lookup(table.flag)
		require.True(t, ok, table.name)
		values := []string{"1", "0", "2", "127"}
		if known.Columns[index].Type == "Int8" {
			values = append(values, "-1", "-2")
		}
		for _, value := range values {
			_, clickhouse := r.server.Try("INSERT INTO " + table.name + " VALUES " + fmt.Sprintf(table.row, value))
			for format, body := range map[record.InputFormat]string{
				record.JSON: fmt.Sprintf(`{"id":1,%q:%s}`, table.flag, value),
				record.CSV:  fmt.Sprintf("id,%q\n1,%s\n", table.flag, value),
			} {
				records := known.Record.NewDecoder(format, []byte(body), record.DecodeOptions{MissingAsZero: true})
				require.True(t, records.Next(), body)
				fault := records.Record().Err
				assert.Equal(t, clickhouse == nil, fault == nil, "%s: %s: ClickHouse says %v, and we %v", table.engine, value, clickhouse, fault)
				if fault != nil {
					refused++
					assert.Equal(t, record.CodeOutOfRange, fault.Code)
					assert.Equal(t, table.flag, fault.Column)
				}
			}
			_, err := known.Record.Codec(index).AppendJSON(nil, []byte(value))
			assert.NoError(t, err, "what a column is compared with is not for its engine")
		}
	}
	assert.Positive(t, refused)
}

func TestFlagsAreFoundInDefinitions(t *testing.T) {
	for definition, want := range map[string]flagged{
		"ReplicatedReplacingMergeTree('/clickhouse/tables/{uuid}/{shard}', '{replica}', v, gone) ORDER BY (id, f(x)) SETTINGS a = 1": {"gone", record.FlagDeleted},
		"ReplicatedCollapsingMergeTree('/odd, (path)', 'it''s', sign) ORDER BY id":                                                   {"sign", record.FlagSign},
		"SharedReplacingMergeTree('/p', '{r}', v) ORDER BY id":                                                                       {},
		"ReplacingMergeTree ORDER BY id":                                                                                             {},
		"ReplacingMergeTree() ORDER BY (a, b)":                                                                                       {},
		"ReplacingMergeTree ORDER BY (a, b)":                                                                                         {},
		"VersionedCollapsingMergeTree(sign, v) ORDER BY id":                                                                          {},
		"CollapsingMergeTree(sign":                                                                                                   {"sign", record.FlagSign}, "": {}, "ReplicatedReplacingMergeTree('": {},
	} {
		assert.Equal(t, want, flagOf(definition), definition)
	}
}
