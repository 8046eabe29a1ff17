package clickhouse

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestParseSummary(t *testing.T) {
	assert.Equal(t, Summary{ReadRows: 20000, ReadBytes: 420010, WrittenRows: 3, WrittenBytes: 4, ResultRows: 10, ResultBytes: 512},
		parseSummary(`{"read_rows":"20000","read_bytes":"420010","written_rows":"3","written_bytes":"4","total_rows_to_read":"7","result_rows":"10","result_bytes":"512","elapsed_ns":"99"}`))
	for _, odd := range []string{"", "{}", `{"read_rows":""}`, `{"read_rows":"x"}`, `{"read_rows":"`} {
		assert.Equal(t, Summary{}, parseSummary(odd), odd)
	}
}
