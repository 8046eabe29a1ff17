package pipes

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWhatSeesTablesAsItsCallerOnlySelects(t *testing.T) {
	for sql, want := range map[string]string{
		"SELECT 1": "", "WITH x AS (SELECT 1) SELECT * FROM x": "", "FROM t SELECT 1": "", "(SELECT 1) UNION ALL (SELECT 2)": "",
		"INSERT INTO t SELECT 1": "pipes[0].policies: want a SELECT, not INSERT: only what is selected can be seen through a caller's grants",
		"SHOW TABLES":            "pipes[0].policies: want a SELECT, not SHOW: only what is selected can be seen through a caller's grants",
		"EXPLAIN SELECT 1":       "pipes[0].policies: want a SELECT, not EXPLAIN: only what is selected can be seen through a caller's grants",
	} {
		_, faults, _ := compile(t, `{"pipes": [{"name": "p", "policies": "caller", "allowed_roles": ["viewer"], "sql": "`+sql+`"}]}`)
		if want == "" {
			assert.Empty(t, faults, sql)
		} else {
			assert.Equal(t, []string{want}, faults, sql)
		}
	}
	_, faults, _ := compile(t, `{"pipes": [{"name": "p", "policies": "callers", "allowed_roles": ["viewer"], "sql": "SELECT 1"}]}`)
	assert.Equal(t, []string{`pipes[0].policies: "callers" is not one of operator, caller; did you mean "caller"?`}, faults)
	_, _, warnings := compile(t, `{"pipes": [{"name": "p", "policies": "caller", "allowed_roles": ["viewer"], "sql": "SELECT 1 FROM t FINAL WHERE x = 'PREWHERE'"}]}`)
	assert.Equal(t, []string{"pipes[0].sql: FINAL is refused to callers where it is said of a table: each is seen through a grant, as a subquery"}, warnings)
}

func TestUnqualify(t *testing.T) {
	for sql, want := range map[string]string{
		"SELECT id FROM d.t":                        "SELECT id FROM t",
		"SELECT d.t.id, `d`.`t u`.x FROM d.t":       "SELECT t.id, `t u`.x FROM t",
		"SELECT 'd.t', x.d1 FROM e.t AS d2":         "SELECT 'd.t', x.d1 FROM e.t AS d2",
		"SELECT 1 FROM d.a WHERE x IN (d.b, 'd.c')": "SELECT 1 FROM a WHERE x IN (b, 'd.c')",
	} {
		plain, ok := Unqualify(sql, "d")
		assert.True(t, ok, sql)
		assert.Equal(t, want, plain, sql)
	}
	for _, sql := range []string{"SELECT d FROM x", "SELECT x.d FROM x", "SELECT 1 AS d", "SELECT d.1", "SELECT `a\\`d` FROM d.t", "SELECT x FROM d"} {
		_, ok := Unqualify(sql, "d")
		assert.False(t, ok, sql)
	}
}

func TestLegible(t *testing.T) {
	assert.True(t, Legible("SELECT `a b`, 'x\ny\\n' FROM t -- \\"))
	for _, sql := range []string{"SELECT `a\nb`", "SELECT `a\\nb`", `SELECT "a\"b"`} {
		assert.False(t, Legible(sql), sql)
	}
}
