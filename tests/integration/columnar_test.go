package integration

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// readBack has ClickHouse read an answer, with a statement over input().
func (s *server) readBack(body, format, structure, sql string) string {
	s.t.Helper()
	s.ch.Exec(s.t, "CREATE OR REPLACE TABLE answered (text String) ENGINE = Memory")
	insert := fmt.Sprintf("INSERT INTO answered SELECT %s FROM input('%s') FORMAT %s", sql, strings.ReplaceAll(structure, "'", `\'`), format)
	address := fmt.Sprintf("http://127.0.0.1:%d/?max_threads=1&date_time_input_format=best_effort&database=%s&query=%s", s.ch.HTTPPort, s.ch.Database, url.QueryEscape(insert))
	response, err := http.Post(address, "application/octet-stream", strings.NewReader(body))
	require.NoError(s.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, response.StatusCode, "%s", text)
	return s.ch.Value(s.t, "SELECT arrayStringConcat(groupArray(text), ',') FROM answered")
}

var columnar = map[string]string{"ArrowStream": "application/vnd.apache.arrow.stream", "Parquet": "application/vnd.apache.parquet"}

// Whatever makes the columns of an answer, a reader finds text, moments and digits.
func TestColumnarAnswersOfEveryRoute(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, "CREATE TABLE typed (id UInt32, e Enum8('a' = 1, 'b' = 2), t DateTime('Europe/Berlin'), u UUID, state AggregateFunction(sum, UInt64)) ENGINE = MergeTree ORDER BY id")
	s.ch.Exec(t, "INSERT INTO typed SELECT number, 'b', toDateTime('2026-03-04 05:06:07', 'UTC'), '61f0c404-5cb3-11e7-907b-a6006ad3dba0', sumState(number) FROM numbers(3) GROUP BY number")
	const sql = "SELECT e, toStartOfHour(t) AS t, u FROM typed WHERE id = {{id:1}}; -- done"
	s.adopt(pipesFile("typed", `"sql":"`+sql+`","parameters":[{"name":"id","type":"number"}]`, "shown", `"sql":"SHOW TABLES"`,
		"state", `"sql":"SELECT sumState(number) AS s, NULL AS n FROM numbers(3)"`, "broken", `"sql":"SELECT nosuch FROM typed"`))
	for format, media := range columnar {
		accept := []string{"Accept", media}
		read := func(a answer, structure, sql string) string {
			require.Equal(t, http.StatusOK, a.status, a.body)
			require.Equal(t, media, a.header.Get("Content-Type"))
			return s.readBack(a.body, format, structure, sql)
		}
		const want = "b 2026-03-04 05:00:00.000 61f0c404-5cb3-11e7-907b-a6006ad3dba0"
		const three, joined = "e String, t DateTime64(3, 'UTC'), u String", "concat(e, ' ', toString(t), ' ', u)"
		assert.Equal(t, want, read(s.pipe("typed", accept...), three, joined), "a pipe")
		assert.Equal(t, want, read(s.opsSQL("/* an */ SELECT e, toStartOfHour(t) AS t, u FROM typed LIMIT 1;", accept...), three, joined), "a statement")
		assert.Equal(t, "b 2026-03-04 05:00:00.000 3", read(s.query("typed", `{"columns":["e"],"time_bucket":{"column":"t","every":"1h","alias":"t"},"aggregations":[{"fn":"count","alias":"n"}],
			"group_by":["e"],"filters":[{"column":"u","op":"in","value":["61f0c404-5cb3-11e7-907b-a6006ad3dba0"]}]}`, accept...), "e String, t DateTime64(3, 'UTC'), n UInt64", "concat(e, ' ', toString(t), ' ', toString(n))"), "aggregates, with a list")
		assert.Equal(t, "b", read(s.query("typed", `{"aggregations":[{"fn":"max","column":"e","alias":"e"}]}`, accept...), "e String", "e"), "an aggregate of an Enum")
		position := s.do(http.MethodPost, "/v1/query?table=typed&position=1", `{"columns":["e"],"limit":1}`, accept...)
		assert.Equal(t, "b", read(position, "e String", "e"), "with a position")
		assert.Equal(t, "0300000000000000", read(s.pipe("state", accept...), "s String, n Nullable(String)", "s"), "the state of an aggregate")
		assert.Equal(t, http.StatusOK, s.pipe("shown", accept...).status, "what is no SELECT")
		refused(t, s.pipe("broken", accept...), http.StatusBadRequest, "clickhouse.rejected")
	}
}

// A large answer has its rows in order, converted columns or not.
func TestLargeColumnarAnswersKeepTheirOrder(t *testing.T) {
	t.Parallel()
	s := start(t, options{config: map[string]string{"query": `{"default_max_rows":1000000}`}}, "CREATE TABLE many (id UInt32, t DateTime('UTC'), noise String) ENGINE = MergeTree ORDER BY id")
	const rows = 300_000
	for part := range 3 {
		s.ch.Exec(t, fmt.Sprintf("INSERT INTO many SELECT number * 3 + %d, number, hex(randomString(16)) FROM numbers(%d)", part, rows/3))
	}
	for format, media := range columnar {
		a := s.query("many", `{"columns":["id","t","noise"],"order_by":[{"column":"id","dir":"desc"}]}`, "Accept", media)
		require.Equal(t, http.StatusOK, a.status)
		require.Greater(t, len(a.body), 8<<20, "it is passed on")
		got := s.readBack(a.body, format, "id UInt32, t DateTime64(3, 'UTC'), noise String",
			fmt.Sprintf("toString((count(), countIf(id + rowNumberInAllBlocks() != %d), countIf(toUnixTimestamp64Milli(t) != intDiv(id, 3) * 1000)))", rows-1))
		assert.Equal(t, fmt.Sprintf("(%d,0,0)", rows), got, format)
	}
}
