package integration

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A table and a column that ClickHouse got a moment ago are found by the
// record that needs them.
func TestNewTablesAndColumnsAreFoundAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, `CREATE TABLE grows (id String) ENGINE = MergeTree ORDER BY id`)
	s.ch.Exec(t, "ALTER TABLE grows ADD COLUMN extra UInt8 DEFAULT 1")
	b := s.ingestLines("grows", `{"id":"1"}`+"\n"+`{"id":"2","extra":2}`+"\n"+`{"id":"3","nope":1}`+"\n"+`{"id":"4","extra":4}`)
	assert.Equal(t, []string{"", "", "record.unknown_column", ""}, verdicts(b))
	s.stored("grows", 3)
	assert.Equal(t, [][]string{{"1", "1"}, {"2", "2"}, {"4", "4"}}, s.ch.Rows(t, "SELECT id, extra FROM grows ORDER BY id"))
	// The next look is some seconds away; asking for it is not.
	s.ch.Exec(t, "CREATE TABLE fresh (id String) ENGINE = MergeTree ORDER BY id")
	require.Equal(t, http.StatusOK, s.ops(http.MethodPost, "/v1/ops/schema/refresh", "").status)
	s.accept("fresh", `{"id":"1"}`)
	s.stored("fresh", 1)
}

func TestNewTableIsFoundByItsFirstRecord(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	s.ch.Exec(t, "CREATE TABLE fresh (id String) ENGINE = MergeTree ORDER BY id")
	a := s.ingest("fresh", `{"id":"1"}`)
	require.Equal(t, http.StatusOK, a.status, a.body)
	s.stored("fresh", 1)
}

func TestComputedColumns(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, `CREATE TABLE computed (id String, raw String EPHEMERAL 'none', upper String DEFAULT upper(raw),
		twice UInt32 MATERIALIZED n * 2, n UInt32 DEFAULT 1, again UInt32 ALIAS n + 1) ENGINE = MergeTree ORDER BY id`)
	l := s.listen("computed", "")
	b := s.ingestLines("computed", strings.Join([]string{
		`{"id":"1","raw":"abc","n":5}`, `{"id":"2","twice":1}`, `{"id":"3","again":1}`, `{"id":"4"}`,
	}, "\n"))
	assert.Equal(t, []string{"", "record.column_computed", "record.column_computed", ""}, verdicts(b))
	assert.Equal(t, []string{"twice", "again"}, []string{b.Results[1].Column, b.Results[2].Column})
	rows := l.rows(2)
	assert.Equal(t, `{"id":"1","n":5}`, string(rows[0]), "an EPHEMERAL value is not streamed")
	assert.Equal(t, `{"id":"4"}`, string(rows[1]))
	s.stored("computed", 2)
	assert.Equal(t, [][]string{{"1", "ABC", "10", "6"}, {"4", "NONE", "2", "2"}},
		s.ch.Rows(t, "SELECT id, upper, twice, again FROM computed ORDER BY id"))
	a := s.query("computed", `{"columns":["raw"]}`)
	assert.Equal(t, http.StatusBadRequest, a.status, a.body)
	queried := s.rows("computed", `{"select_all":true,"order_by":[{"column":"id","dir":"asc"}]}`)
	assert.NotContains(t, string(queried[0]), "raw")
	assert.Zero(t, s.parked())
}

// Names are whatever ClickHouse allows.
func TestAwkwardNames(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, "CREATE TABLE `we``ird \"t.a/b%20é` (`a b` String, `x``y` Int32, `dot.ted` UInt8, `\"q\"` String, `é😀` String, `\\\\back` UInt8) ENGINE = MergeTree ORDER BY `a b`")
	const table = "we`ird \"t.a/b%20é"
	l := s.listen(table, "")
	const record = `{"a b":"1","x` + "`" + `y":-1,"dot.ted":1,"\"q\"":"q","é😀":"e","\\back":7}`
	s.accept(table, record)
	row, _ := l.row()
	assert.Equal(t, record, string(row))
	rows := []string{}
	s.eventually(func() string {
		rows = rows[:0]
		for _, row := range s.rows(table, `{"select_all":true}`) {
			rows = append(rows, string(row))
		}
		return unless(len(rows) == 1, "it is not stored")
	})
	assert.Equal(t, record, rows[0])
	assert.Zero(t, s.parked())
}

// Records of one body that carry different columns are stored with the
// defaults of what each leaves out.
func TestColumnSetsOfOneBody(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, `CREATE TABLE sets (id UInt32, a String DEFAULT 'da', b Int64 DEFAULT 42, c Nullable(UInt8) DEFAULT 3, d Array(String) DEFAULT ['x']) ENGINE = MergeTree ORDER BY id`)
	var body strings.Builder
	for i := range 160 {
		fmt.Fprintf(&body, `{"id":%d`, i)
		for bit, field := range []string{`"a":"s"`, `"b":1`, `"c":null`, `"d":[]`} {
			if i>>bit&1 == 1 {
				body.WriteString("," + field)
			}
		}
		body.WriteString("}\n")
	}
	s.accept("sets", body.String())
	s.stored("sets", 160)
	for bit, condition := range []string{"a = if(bitTest(id, 0), 's', 'da')", "b = if(bitTest(id, 1), 1, 42)", "if(bitTest(id, 2), c IS NULL, c = 3)", "d = if(bitTest(id, 3), [], ['x'])"} {
		assert.Equal(t, "160", s.ch.Value(t, "SELECT countIf("+condition+") FROM sets"), bit)
	}
}

// missing_as_zero is a table's own choice.
func TestMissingColumns(t *testing.T) {
	t.Parallel()
	const columns = ` (id String, n UInt32, s String, e Enum8('a'=1,'b'=2), t DateTime('UTC')) ENGINE = MergeTree ORDER BY id`
	s := start(t, options{config: map[string]string{"ingest": `{"flush":{"max_wait":"50ms"},"tables":{"lax":{"missing_as_zero":true}}}`}},
		"CREATE TABLE strict"+columns, "CREATE TABLE lax"+columns)
	p := refused(t, s.ingest("strict", `{"id":"1"}`), http.StatusBadRequest, "record.missing_column")
	assert.Equal(t, "n", p.Column)
	s.accept("lax", `{"id":"1"}`)
	s.stored("lax", 1)
	assert.Equal(t, [][]string{{"0", "", "a", "1970-01-01 00:00:00"}}, s.ch.Rows(t, "SELECT n, s, e, t FROM lax"))
	assert.Zero(t, s.ch.Count(t, "strict"))
}
