package schema_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
	"github.com/wavehouse/wavehouse/internal/schema"
)

func TestTablesThatTakeNoInsertAreThoseClickHouseRefuses(t *testing.T) {
	t.Parallel()
	s := clickhousetest.Start(t)
	s.Exec(t,
		"CREATE TABLE plain (id UInt32, s String) ENGINE = MergeTree ORDER BY id",
		"CREATE TABLE nothing AS plain ENGINE = Null",
		"CREATE TABLE log AS plain ENGINE = Log",
		"CREATE TABLE memory AS plain ENGINE = Memory",
		"CREATE TABLE set AS plain ENGINE = Set",
		"CREATE TABLE joined AS plain ENGINE = Join(ANY, LEFT, id)",
		"CREATE TABLE buffer AS plain ENGINE = Buffer(currentDatabase(), plain, 1, 1, 1, 1, 1, 1, 1)",
		"CREATE MATERIALIZED VIEW mv_to TO plain AS SELECT id, s FROM nothing",
		"CREATE MATERIALIZED VIEW mv_own ENGINE = MergeTree ORDER BY id AS SELECT id, s FROM nothing",
		"CREATE VIEW view AS SELECT * FROM plain",
		"CREATE TABLE merge AS plain ENGINE = Merge(currentDatabase(), '^plain$')",
		"CREATE DICTIONARY dict (id UInt32, s String) PRIMARY KEY id SOURCE(CLICKHOUSE(TABLE 'plain')) LAYOUT(FLAT()) LIFETIME(0)",
		"CREATE TABLE of_dict (id UInt64, s String) ENGINE = Dictionary(currentDatabase() || '.dict')",
		"CREATE TABLE random AS plain ENGINE = GenerateRandom",
		"CREATE TABLE script (id UInt32, s String) ENGINE = Executable('x.sh', 'CSV', (SELECT 1))",
		"CREATE TABLE scripts (id UInt32, s String) ENGINE = ExecutablePool('x.sh', 'CSV', (SELECT 1))",
		"CREATE TABLE mongo AS plain ENGINE = MongoDB('localhost:1', 'a', 'b', 'c', 'd')",
	)
	rows := s.Rows(t, "SELECT name, engine FROM system.tables WHERE database = currentDatabase() AND name NOT LIKE '.inner%'")
	require.Len(t, rows, 17)
	for _, row := range rows {
		table := schema.Table{Name: row[0], Engine: row[1]}
		refusal := insertOne(t, s, table.Name)
		assert.Equal(t, refusal == "", table.TakesInserts(), "%s: %s", table.Engine, refusal)
		if !table.TakesInserts() {
			assert.Contains(t, refusal, "Method write is not supported", table.Engine)
		}
	}
	assert.False(t, (&schema.Table{Engine: "SystemNumbers"}).TakesInserts())
}

// insertOne returns what ClickHouse says against a row, "" for nothing.
func insertOne(t *testing.T, s *clickhousetest.Server, table string) string {
	t.Helper()
	statement := url.QueryEscape(fmt.Sprintf("INSERT INTO `%s` (id, s) FORMAT TSV", table))
	resp, err := http.Post("http://"+s.HTTPAddr()+"/?database="+s.Database+"&query="+statement, "text/plain", strings.NewReader("1\ta\n"))
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	if resp.StatusCode == http.StatusOK {
		return ""
	}
	return string(answer)
}
