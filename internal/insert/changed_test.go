package insert_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
	"github.com/wavehouse/wavehouse/internal/insert"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/schema"
)

// changing are types that a column may have before and after a change, with
// values that only some of the others can hold.
func changing() map[string][]string {
	return map[string][]string{
		"Bool": {`true`, `false`}, "UInt8": {`0`, `1`, `44`, `255`}, "Int8": {`-1`, `100`}, "UInt16": {`300`, `65535`},
		"Int32": {`-2147483648`, `7`}, "UInt64": {`300`, `18446744073709551615`}, "Int64": {`3000000000`, `-1`},
		"UInt256": {`340282366920938463463374607431768211456`}, "Float32": {`0.5`, `16777216`}, "Float64": {`1e300`, `-0.1`},
		"Decimal(9, 2)": {`1.25`}, "Decimal(18, 4)": {`1.2345`, `99999999.5`}, "String": {`""`, `"300"`, `"2026-02-30"`, `"a"`, `"2026-03-04"`, `"1.25"`},
		"FixedString(2)": {`"ab"`, `"1"`}, "LowCardinality(String)": {`"12"`, `"x"`}, "Nullable(UInt8)": {`null`, `9`}, "Nullable(String)": {`null`, `"5"`},
		"Date": {`"2026-03-04"`, `"2149-06-06"`}, "Date32": {`"1905-01-01"`, `"2026-03-04"`}, "DateTime('UTC')": {`"2026-03-04T05:06:07Z"`},
		"DateTime64(3, 'UTC')":    {`"2026-03-04T05:06:07.089Z"`, `"2200-01-01T00:00:00.000Z"`, `"1930-01-01T00:00:00.000Z"`},
		"Enum8('a' = 1, 'b' = 2)": {`"a"`, `"b"`}, "Enum8('a' = 2, 'b' = 1)": {`"a"`, `"b"`}, "Enum16('a' = 300)": {`"a"`},
		"UUID": {`"61f0c404-5cb3-11e7-907b-a6006ad3dba0"`}, "IPv4": {`"10.0.0.1"`}, "IPv6": {`"::1"`},
		"Array(UInt64)": {`[300]`, `[]`, `[1,2]`}, "Array(UInt8)": {`[44]`}, "Map(String, UInt64)": {`{"k":300}`}, "Map(String, UInt8)": {`{"k":3}`},
		"Tuple(a UInt64, b String)": {`{"a":300,"b":"x"}`}, "Tuple(a UInt8, b String)": {`{"a":3,"b":"x"}`},
	}
}

// A row that was written for another type of its column is stored with the value
// that the column's codec gives it, or becomes a dead letter that names the
// column: ClickHouse, which would wrap and cut, converts nothing. The engine is
// asked for every pair of types; for some of them with -short.
func TestAChangedTypeNeverStoresAnotherValue(t *testing.T) {
	t.Parallel()
	c := newReal(t, clickhousetest.Start(t), "default")
	r := newRig(t).open()
	var all []*changedColumn
	pair := 0 // in an order of their own in every run
	for now := range changing() {
		column := newChangedColumn(t, fmt.Sprint("changed", len(all)), now)
		c.Exec(t, "CREATE TABLE "+column.table+" (id UInt32, v "+now+") ENGINE = MergeTree ORDER BY id")
		for then, values := range changing() {
			if pair++; testing.Short() && then != now && pair%4 > 0 {
				continue
			}
			r.publish(column.rows(t, then, values))
		}
		all = append(all, column)
	}
	catalogue, err := schema.Discover(t.Context(), c.pools, birch)
	require.NoError(t, err)
	// The tables stand still: who asks again for each of a thousand refusals reads
	// all of them every time.
	r.start(c.use, func(o *insert.WorkerOptions) {
		o.Table = func(_ context.Context, topic mq.Topic) (*record.Table, error) {
			table, _ := catalogue.Table(topic.Table)
			return table.Record, nil
		}
	})
	require.Eventually(t, func() bool { return r.pending(birch) == 0 }, 6*time.Minute, 20*time.Millisecond, "the queue to empty")
	for _, column := range all {
		t.Run(column.now, func(t *testing.T) {
			stored := c.Rows(t, "SELECT id, hex(formatRow('RowBinary', v)) FROM "+column.table+" ORDER BY id")
			for _, row := range stored {
				assert.Equal(t, fmt.Sprintf("%X", column.want[row[0]]), row[1], "row %s", row[0])
			}
			assert.Len(t, stored, len(column.want))
			letters := r.letters(birch, column.table)
			assert.Len(t, letters, column.refused)
			for _, l := range letters {
				assert.True(t, strings.HasPrefix(l.Error, `column v: `), l.Error)
				assert.Contains(t, l.Code, "record.")
			}
		})
	}
}

// changedColumn is what becomes of rows of a table whose column has a type now.
type changedColumn struct {
	table, now string
	codec      record.Codec
	id         uint32
	want       map[string][]byte // by id, the value as it is stored
	refused    int
}

func newChangedColumn(t *testing.T, table, now string) *changedColumn {
	t.Helper()
	codec, err := record.NewCodec(now, time.UTC)
	require.NoError(t, err)
	return &changedColumn{table: table, now: now, codec: codec, want: map[string][]byte{}}
}

// rows is a chunk that was written when the column had another type.
func (c *changedColumn) rows(t *testing.T, then string, values []string) mq.Chunk {
	t.Helper()
	header, err := json.Marshal([]map[string]string{{"name": "id", "type": "UInt32"}, {"name": "v", "type": then}})
	require.NoError(t, err)
	old, err := record.NewCodec(then, time.UTC)
	require.NoError(t, err)
	var body []byte
	for _, value := range values {
		c.id++
		body = binary.LittleEndian.AppendUint32(body, c.id)
		start := len(body)
		body, err = old.AppendJSON(body, []byte(value))
		require.NoError(t, err, "%s as %s", value, then)
		shown, _, err := old.RenderJSON(nil, body[start:], record.RenderOptions{})
		require.NoError(t, err)
		encoded, err := c.codec.AppendJSON(nil, shown)
		switch {
		case then == c.now:
			c.want[fmt.Sprint(c.id)] = slices.Clone(body[start:])
		case err != nil:
			c.refused++
		default:
			c.want[fmt.Sprint(c.id)] = encoded
		}
	}
	return mq.Chunk{
		Topic:  mq.Topic{Tenant: birch, Table: c.table},
		Header: mq.Header{Version: mq.Version, Format: mq.FormatRowBinary, Columns: string(header), Rows: len(values), Received: time.Now()},
		Body:   body,
	}
}
