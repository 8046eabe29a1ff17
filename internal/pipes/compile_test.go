package pipes

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/strictjson"
)

// compile reads pipes.json text as the settings do.
func compile(t testing.TB, text string) (*Set, []string, []string) {
	t.Helper()
	doc, faults := strictjson.Parse([]byte(text))
	require.Empty(t, faults)
	var d Document
	unread := Fields().Decode(doc, &d)
	s, found, warnings := Compile(&d, []string{"viewer"}, doc.Has)
	return s, messages(append(found, unread...)), messages(warnings)
}

func messages(faults []strictjson.Fault) []string {
	var all []string
	for _, f := range faults {
		all = append(all, f.Path+": "+f.Message)
	}
	return all
}

// onePipe compiles a pipe named p with the SQL and parameters.
func onePipe(t testing.TB, sql, parameters string) (*Pipe, []string, []string) {
	t.Helper()
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(sql)
	s, faults, warnings := compile(t, `{"pipes": [{"name": "p", "allowed_roles": ["viewer"], "sql": "`+quoted+`", "parameters": [`+parameters+`]}]}`)
	if s == nil {
		return nil, faults, warnings
	}
	p, ok := s.Get("p")
	require.True(t, ok)
	return p, faults, warnings
}

const pageParameter = `{"name": "page", "type": "string", "required": true}`

func TestFaultsOfStatements(t *testing.T) {
	for sql, want := range map[string]string{
		``:                        `a pipe must have a statement`,
		` -- only a comment`:      `a pipe must have a statement`,
		`;`:                       `a pipe must have a statement`,
		`SELECT '{{page}}'`:       `the placeholder {{page}} is inside quotes: values are bound, not spliced; write it bare`,
		"SELECT `{{page}}`":       "the placeholder {{page}} is inside a quoted name: values are bound, not spliced; write it bare",
		`SELECT "a{{page}}"`:      `the placeholder {{page}} is inside a quoted name: values are bound, not spliced; write it bare`,
		`SELECT 1 /* {{page}} */`: `the placeholder {{page}} is inside a comment: values are bound, not spliced; write it bare`,
		`SELECT 1 -- {{page}}`:    `the placeholder {{page}} is inside a comment: values are bound, not spliced; write it bare`,
		"SELECT 1 # {{page}}\n":   "the placeholder {{page}} is inside a comment: values are bound, not spliced; write it bare",
		`SELECT $x$ {{page}} $x$`: `the placeholder {{page}} is inside quotes: values are bound, not spliced; write it bare`,
		`SELECT ‘{{page}}’`:       `the placeholder {{page}} is inside quotes: values are bound, not spliced; write it bare`,
		`SELECT '\'{{page}}'`:     `the placeholder {{page}} is inside quotes: values are bound, not spliced; write it bare`,
		`SELECT '''{{page}}'`:     `the placeholder {{page}} is inside quotes: values are bound, not spliced; write it bare`,
		`SELECT col_{{page}}`:     `the placeholder {{page}} is inside an identifier: it stands for a whole value`,
		`SELECT {{page}}_x`:       `the placeholder {{page}} is inside an identifier: it stands for a whole value`,
		`SELECT db.{{page}}`:      `the placeholder {{page}} is inside an identifier: it stands for a whole value`,
		`SELECT {{page}}'x'`:      `the placeholder {{page}} is inside an identifier: it stands for a whole value`,
		`SELECT {{ pag }}`:        `{{ pag }} names no parameter; did you mean "page"?`,
		`SELECT {{ zzzzzz }}`:     `{{ zzzzzz }} names no parameter: declare it in parameters`,
		`SELECT {{}}`:             `{{}} names no parameter: declare it in parameters`,
		`SELECT {{ jwt. }}`:       `{{ jwt. }} names no claim: a claim's path is names joined by dots: app_metadata.role`,
		`SELECT {{ jwt.a..b }}`:   `{{ jwt.a..b }} names no claim: a claim's path is names joined by dots: app_metadata.role`,
		`SELECT {{ jwt.a:b }}`:    `{{ jwt.a:b }} names no claim: a claim has no default, and a name that holds a colon must be quoted`,
		`SELECT {{page`:           `a placeholder is not closed: want }}`,
		`SELECT 'x`:               `the statement ends inside quotes`,
		"SELECT `x":               `the statement ends inside a quoted name`,
		`SELECT 1 FROM {p_page:Identifier} WHERE {{page}} != ''`: `a value is written {{name}}, and its type in parameters: ClickHouse's {name:Type} has no value here`,
		`SELECT {page:String}`:      `a value is written {{name}}, and its type in parameters: ClickHouse's {name:Type} has no value here`,
		`SELECT 1; SELECT 2`:        `want one statement, not several`,
		`SELECT 1 FORMAT JSON`:      `leave FORMAT out: the answer is rendered as the caller accepts it`,
		`SELECT 1 format CSV;`:      `leave FORMAT out: the answer is rendered as the caller accepts it`,
		`SELECT 1 INTO OUTFILE 'x'`: `INTO OUTFILE is not for a server`,
	} {
		_, faults, _ := onePipe(t, sql, pageParameter)
		assert.Equal(t, []string{"pipes[0].sql: " + want}, faults, sql)
	}
}

func TestStatementsThatAreFine(t *testing.T) {
	for _, sql := range []string{
		`SELECT {{page}}`, `SELECT {{ page }} AS x;`, `SELECT map('a', 1), {'a': {{page}}}`, `SELECT 'it''s \' {', {{page}} -- done`,
		`SELECT format('{}', {{page}})`, `SELECT format FROM t WHERE p = {{page}}`, `SELECT 1 IN ({{page}},{{page}})`,
		`SELECT /* a /* b */ c */ {{page}}`, `SELECT {{ jwt.app.org_id }}, {{ tenant }}, {{page}}`, `SELECT {{page:'/home'}}`,
	} {
		_, faults, warnings := onePipe(t, sql, pageParameter)
		assert.Empty(t, faults, sql)
		assert.Empty(t, warnings, sql)
	}
}

func TestFaultsOfParameters(t *testing.T) {
	for parameters, want := range map[string]string{
		`{"type": "string"}`:                                     `pipes[0].parameters[0]: a parameter must have a name`,
		`{"name": "a b", "type": "string"}`:                      `pipes[0].parameters[0].name: the name "a b" is not letters, digits and _`,
		`{"name": "tenant", "type": "string"}`:                   `pipes[0].parameters[0].name: the name "tenant" has a meaning of its own in placeholders`,
		`{"name": "a"}`:                                          `pipes[0].parameters[0].type: the type "" is not known: want string, number, boolean, date, datetime, uuid, array(<type>) or identifier(<choice>|<choice>)`,
		`{"name": "a", "type": "int"}`:                           `pipes[0].parameters[0].type: the type "int" is not known: want string, number, boolean, date, datetime, uuid, array(<type>) or identifier(<choice>|<choice>)`,
		`{"name": "a", "type": "array(array(date))"}`:            `pipes[0].parameters[0].type: the type "array(array(date))" is not known: an array is of string, number, boolean, date, datetime or uuid`,
		`{"name": "a", "type": "identifier(x|y z)"}`:             `pipes[0].parameters[0].type: the choice "y z" is no identifier: want letters, digits and _, with dots between parts`,
		`{"name": "a", "type": "identifier(x|x)"}`:               `pipes[0].parameters[0].type: the choice "x" is there twice`,
		`{"name": "a", "type": "number", "default": "x"}`:        `pipes[0].parameters[0].default: the default is not of the type number: want a number, not "x"`,
		`{"name": "a", "type": "array(number)", "default": 1}`:   `pipes[0].parameters[0].default: the default is not of the type array(number): want an array, not the number 1`,
		`{"name": "a", "type": "date", "default": "2026-02-30"}`: `pipes[0].parameters[0].default: the default is not of the type date: want a date like 2026-03-24, not "2026-02-30"`,
	} {
		_, faults, _ := onePipe(t, `SELECT 1`, parameters)
		assert.Equal(t, []string{want}, faults, parameters)
	}
	_, faults, _ := onePipe(t, `SELECT {{a}}`, `{"name": "a", "type": "identifier(x|y)"}`)
	assert.Equal(t, []string{"pipes[0].parameters[0]: an identifier must be required or have a default: there is no statement without it"}, faults)
	_, faults, _ = onePipe(t, `SELECT {{a:z}}`, `{"name": "a", "type": "identifier(x|y)"}`)
	assert.Equal(t, []string{`pipes[0].sql: {{a:z}}: the default is not of the type identifier(x|y): want one of x, y, not "z"`}, faults)
	_, faults, _ = onePipe(t, `SELECT 1`, pageParameter+","+pageParameter)
	assert.Equal(t, []string{`pipes[0].parameters[1].name: the parameter "page" is there twice`}, faults)
}

func TestFaultsOfPipes(t *testing.T) {
	_, faults, warnings := compile(t, `{"pipes": [
		{"sql": "SELECT 1"},
		{"name": "a/b", "sql": "SELECT 1", "allowed_roles": ["viewer"]},
		{"name": "c", "sql": "SELECT 1", "allowed_roles": ["admin", "nobody"], "reads": ["t", ""]},
		{"name": "c", "sql": "SELECT 1", "allowed_roles": ["viewer"]},
		{"name": "`+strings.Repeat("n", 129)+`", "sql": "SELECT 1", "allowed_roles": ["viewer"]}]}`)
	assert.Equal(t, []string{
		`pipes[0]: a pipe must have a name`,
		`pipes[1].name: the name "a/b" cannot be in a URL as it is: want letters, digits, _, - and dots, and a letter, a digit or _ first`,
		`pipes[2].allowed_roles[1]: role "nobody" is not in roles.json`,
		`pipes[2].reads[1]: a table must have a name`,
		`pipes[3].name: the pipe "c" is there twice`,
		`pipes[4].name: want at most 128 bytes, not 129`,
	}, faults)
	assert.Equal(t, []string{`pipes[0].allowed_roles: no role may run this pipe but the admin role`}, warnings)
}

func TestWarnings(t *testing.T) {
	_, faults, warnings := onePipe(t, `SELECT {{a}}`, `{"name": "a", "type": "number", "required": true, "default": 1}, {"name": "b", "type": "string"}`)
	assert.Empty(t, faults)
	assert.Equal(t, []string{
		"pipes[0].parameters[0].default: a required parameter's default is never used",
		`pipes[0].parameters[1]: the statement does not use the parameter "b"`,
	}, warnings)
	_, _, warnings = compile(t, `{"pipes": [{"name": "w", "sql": "INSERT INTO t SELECT 1", "allowed_roles": ["viewer"], "cache": {"ttl": "30s"}}]}`)
	assert.Equal(t, []string{"pipes[0].cache.ttl: the statement writes, so its answers are never kept"}, warnings)
}

func TestSet(t *testing.T) {
	s, faults, _ := compile(t, `{"pipes": [
		{"name": "b", "sql": "SELECT 1", "allowed_roles": ["viewer"], "cache": {"ttl": 90}, "reads": ["t"]},
		{"name": "a", "sql": "SELECT 1", "cache": {"ttl": "0"}},
		{"name": "c", "sql": "SELECT 1"}]}`)
	require.Empty(t, faults)
	var names []string
	for _, p := range s.All() {
		names = append(names, p.Name())
	}
	assert.Equal(t, []string{"a", "b", "c"}, names)
	b, _ := s.Get("b")
	ttl, set := b.TTL()
	assert.Equal(t, 90*time.Second, ttl)
	assert.True(t, set)
	assert.Equal(t, []string{"t"}, b.Reads())
	assert.True(t, b.AllowsRole("viewer"))
	assert.False(t, b.AllowsRole("Viewer"))
	assert.False(t, b.AllowsRole(""))
	a, _ := s.Get("a")
	ttl, set = a.TTL()
	assert.Zero(t, ttl)
	assert.True(t, set, "zero is not the same as nothing")
	c, _ := s.Get("c")
	_, set = c.TTL()
	assert.False(t, set)
	_, ok := s.Get("d")
	assert.False(t, ok)
	var none *Set
	assert.Empty(t, none.All())
	_, ok = none.Get("a")
	assert.False(t, ok)
}

func TestVerb(t *testing.T) {
	for sql, want := range map[string]string{
		"SELECT 1": "SELECT", " select 1": "SELECT", "-- INSERT\nSELECT 1": "SELECT", "/* /* x */ INSERT */ (SELECT 1)": "SELECT",
		"WITH 1 AS x SELECT x": "SELECT", "WITH x AS (INSERT) SELECT 1": "SELECT", "WITH 1 AS insert SELECT insert": "SELECT",
		"WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x": "INSERT", "-- a\nWITH /* SELECT */ (SELECT 1) AS y INSERT INTO t SELECT y": "INSERT",
		"insert into t values (1)": "INSERT", "ALTER TABLE t DROP COLUMN c": "ALTER", ";; DROP TABLE t": "DROP", "": "", "'SELECT'": "", "`SELECT`": "",
		"FROM t SELECT 1": "FROM", "EXPLAIN SELECT 1": "EXPLAIN", "SYSTEM STOP MERGES": "SYSTEM", "WITH 1 AS x": "", "1": "", "WITH 1 AS x; INSERT": "",
		"# note\nUPDATE t SET a = 1 WHERE 1": "UPDATE", "WITH [1, (2)] AS x DELETE FROM t WHERE 1": "DELETE",
	} {
		assert.Equal(t, want, Verb(sql), sql)
	}
	assert.True(t, Reads("(SELECT 1)"))
	assert.False(t, Reads("TRUNCATE t"))
	assert.False(t, Reads("nonsense"), "what is not known may write")
	assert.False(t, Changes("INSERT INTO t VALUES (1)"))
	assert.True(t, Changes("create table t"))
	assert.True(t, Changes("WITH 1 AS x"))
}

// Whatever the text, the tokens cover it and no placeholder of an accepted
// statement is anywhere but bare.
func FuzzCompile(f *testing.F) {
	for _, sql := range []string{"SELECT {{page}}", "SELECT '{{page}}'", "/* {{ */ }}", "$a$ {{page}} $a$", "{{page:'}}'}}", "‘{{page}}“", "WITH x AS (SELECT 1) SELECT 2"} {
		f.Add(sql)
	}
	f.Fuzz(func(t *testing.T, sql string) {
		end := 0
		for _, tok := range scan(sql) {
			if tok.start != end || tok.end <= tok.start {
				t.Fatalf("the tokens do not cover %q", sql)
			}
			end = tok.end
		}
		if end != len(sql) {
			t.Fatalf("the tokens do not cover %q", sql)
		}
		d := Document{Pipes: []Definition{{Name: "p", SQL: sql, Parameters: []Parameter{{Name: "page", Type: "string", Required: true}}}}}
		s, faults, _ := Compile(&d, nil, func(string) bool { return false })
		if (s == nil) != (len(faults) > 0) {
			t.Fatal("refused without a fault, or accepted with one")
		}
		if s == nil {
			return
		}
		p, _ := s.Get("p")
		const secret = "Zsecret'\\value"
		st, err := p.Bind(Arguments{Query: map[string][]string{"page": {secret}}, Claims: map[string]any{}})
		if err == nil && (strings.Contains(st.SQL, secret) || strings.Contains(st.SQL, "{{")) {
			t.Fatalf("spliced: %q", st.SQL)
		}
	})
}
