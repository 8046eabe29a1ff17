// Package scope narrows the statement of a pipe to what its caller may see.
//
// Each table of the MergeTree family that the statement names is put before it as
// a WITH of the same name, which selects the columns of the caller's grant and
// the rows of its rule by PREWHERE: no other column can be named, and nothing of
// the statement is computed for a row that the rule hides, whatever it is. Views
// are put there too, as what they select. What cannot be seen this way is
// refused, and ClickHouse's own analysis of the whole is read before it runs: it
// must meet no table anywhere else.
package scope

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/pipes"
	"github.com/wavehouse/wavehouse/internal/pipes/lineage"
	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/query"
	"github.com/wavehouse/wavehouse/internal/schema"
)

const (
	// maxTables bounds the tables and views of one statement.
	maxTables = 50
	// maxDepth bounds views inside of views.
	maxDepth = 16
	// maxText bounds the statement that is sent, in bytes: ClickHouse reads 256 KiB.
	maxText = 250 << 10
)

// Denied is why a statement may not run for its caller. Its text is the
// operator's to read: it names what the caller may not see.
type Denied struct{ reason string }

func (d *Denied) Error() string { return d.reason }

func denied(format string, args ...any) error { return &Denied{fmt.Sprintf(format, args...)} }

// Lineage says what statements refer to.
type Lineage interface {
	References(ctx context.Context, pool *clickhouse.Pool, sql string) (lineage.References, error)
	Functions(ctx context.Context, pool *clickhouse.Pool) (*lineage.Functions, error)
}

// See returns a table of the pool's database and the caller's grant on it. A nil
// table is a name that is no table's. The error is why the caller may not read it.
type See func(name string) (*schema.Table, *policy.BoundSelect, error)

// Statement is a statement for one caller.
type Statement struct {
	SQL string
	// Cap is how many rows the answer may have: the least of the grants.
	Cap query.Cap
	// Params and External travel with it, beside the parameters of the pipe.
	Params   map[string]string
	External []clickhouse.ExternalTable
	// Settings are the caps of the grants, the least of each, and what the
	// statement needs.
	Settings map[string]string
	// Fingerprint tells the grants that it was made of.
	Fingerprint string

	rows   string // SQL without its LIMIT
	prefix string
	tables map[string]string // the tables in WITH, by what each is called there
}

// Narrow makes the statement that a caller may run in place of the pipe's. The
// error is a *Denied, or why ClickHouse could not be asked.
func Narrow(ctx context.Context, pool *clickhouse.Pool, of Lineage, statement *pipes.Statement, see See) (*Statement, error) {
	functions, err := of.Functions(ctx, pool)
	if err != nil {
		return nil, err
	}
	n := &narrowing{ctx: ctx, pool: pool, of: of, see: see, functions: functions, placed: map[string]bool{}}
	if err := n.statement("the statement", statement.SQL, statement.Shape, 0, func(name string) (string, error) {
		if strings.Contains(name, ".") {
			return "", denied("the statement names the table %s with its database: want the table alone", name)
		}
		return name, nil
	}); err != nil {
		return nil, err
	}
	if err := n.aggregations(); err != nil {
		return nil, err
	}
	return n.compose(statement.SQL)
}

// narrowing collects what stands before one statement.
type narrowing struct {
	ctx       context.Context
	pool      *clickhouse.Pool
	of        Lineage
	see       See
	functions *lineage.Functions

	placed  map[string]bool
	parts   []part // those that others read come first
	grants  []*policy.BoundSelect
	called  []string // aggregate functions, and what may stand for one
	maxRows int
}

// part is one table or view in WITH.
type part struct {
	table *schema.Table
	grant *policy.BoundSelect
	// select is of a view: what it selects, and as which columns.
	selects string
	columns []string
}

// statement judges one statement, and places the tables that it names. local
// makes of a name in it one of the pool's database.
func (n *narrowing) statement(what, sql, shape string, depth int, local func(name string) (string, error)) error {
	if !pipes.Legible(sql) {
		return denied("%s has names that hold a line break or a backslash", what)
	}
	found, err := n.of.References(n.ctx, n.pool, shape)
	switch {
	case err != nil && clickhouse.ClassifyRead(err) == clickhouse.ClassRejected:
		return denied("%s cannot be parsed: %v", what, err)
	case err != nil:
		return err
	case found.Opaque:
		return denied("%s is no plain SELECT of tables", what)
	case found.Settings:
		return denied("%s has SETTINGS of its own", what)
	}
	for _, name := range found.TableFunctions {
		if !harmlessTable(name) {
			return denied("%s reads the table function %s", what, name)
		}
	}
	for _, name := range found.Functions {
		if !n.functions.Steady(name) && !timeOrChance(name) || tells(name) {
			return denied("%s calls %s, which may tell of more than its arguments", what, name)
		}
	}
	n.called = append(n.called, found.Functions...)
	for _, name := range found.Tables {
		name, err := local(name)
		if err != nil {
			return err
		}
		if err := n.place(name, depth); err != nil {
			return err
		}
	}
	return nil
}

// place puts a table before the statement, once, and before that what it reads.
func (n *narrowing) place(name string, depth int) error {
	if n.placed[name] {
		return nil
	}
	table, grant, err := n.see(name)
	switch {
	case err != nil:
		return denied("the table %s: %v", name, err)
	case table == nil:
		return nil // of a WITH of its own, or else what is run will meet it
	case len(n.placed) == maxTables:
		return denied("more than %d tables and views are read", maxTables)
	case strings.ContainsAny(name, ".\\\n\r"):
		return denied("the name of the table %q can be misread", name)
	}
	n.placed[name] = true
	p := part{table: table, grant: grant}
	switch {
	case strings.HasSuffix(table.Engine, "MergeTree"):
	case table.Engine == "View":
		err = n.view(&p, depth)
	default:
		err = denied("the table %s is a %s, of which no part can be shown", name, table.Engine)
	}
	n.parts, n.grants = append(n.parts, p), append(n.grants, grant)
	return err
}

// compose writes the whole.
func (n *narrowing) compose(sql string) (*Statement, error) {
	s := &Statement{
		Params: map[string]string{}, Settings: n.settings(), prefix: n.prefix(sql), tables: map[string]string{},
	}
	var b strings.Builder
	var prints []string
	for i, p := range n.parts {
		inner := s.prefix + strconv.Itoa(i)
		name := clickhouse.QuoteIdent(p.table.Name)
		b.WriteString(separator(i))
		if p.selects != "" {
			b.WriteString(name + " AS (SELECT " + clickhouse.QuoteIdents(p.columns) + " FROM (\n" + p.selects + "\n))")
		} else {
			source, err := query.Visible(n.pool.Database(), p.table, p.grant, inner)
			if err != nil {
				return nil, denied("the table %s: %v", p.table.Name, err)
			}
			b.WriteString(inner + " AS (" + source.SQL + "), " + name + " AS (SELECT * FROM " + inner + ")")
			maps.Copy(s.Params, source.Params)
			s.External = append(s.External, source.External...)
			s.tables[inner] = n.pool.Database() + "." + p.table.Name
		}
		prints = append(prints, p.table.Name+" "+p.grant.Fingerprint())
	}
	b.WriteString(" SELECT * FROM (\n" + sql + "\n)")
	if b.Len() > maxText {
		return nil, denied("what is read is longer than %d bytes as a statement", maxText)
	}
	s.rows, s.Fingerprint = strings.TrimLeft(b.String(), " "), strings.Join(prints, " ")
	s.SQL = s.rows
	if n.maxRows > 0 {
		s.Cap = query.Cap{Rows: int64(n.maxRows), By: query.CapRole}
		s.SQL += " LIMIT " + strconv.Itoa(n.maxRows)
	}
	return s, nil
}

// Ahead is SQL with one row more than Cap lets the answer have, if there is one.
func (s *Statement) Ahead() string { return s.rows + " LIMIT " + strconv.FormatInt(s.Cap.Rows+1, 10) }

// CountSQL counts the rows of Ahead, in text.
func (s *Statement) CountSQL() string {
	return "SELECT count() FROM (" + s.Ahead() + ") FORMAT TabSeparated"
}

func separator(i int) string {
	if i == 0 {
		return "WITH "
	}
	return ", "
}

// prefix is the beginning of no name in the statement or in a view: what it
// names is ours.
func (n *narrowing) prefix(sql string) string {
	texts := []string{sql}
	for _, p := range n.parts {
		texts = append(texts, p.selects, p.table.Name)
	}
	prefix := "wh_seen"
	for slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(strings.ToLower(text), prefix) }) {
		prefix += "_"
	}
	return prefix
}

// settings are the least of each cap of the grants, and what keeps the statement
// from being answered by rows that the grants hide.
func (n *narrowing) settings() map[string]string {
	all := map[string]string{
		// What is written above is to be understood as it was analysed.
		"enable_analyzer": "1", "enable_global_with_statement": "1",
		// Rows of an inner ORDER BY stay in their order.
		"query_plan_remove_redundant_sorting": "0",
		// Both remember what they found under the condition alone.
		"use_query_cache": "0", "use_query_condition_cache": "0",
	}
	for _, grant := range n.grants {
		if grant.HidesRows() {
			// An index of values is asked by running the condition on them.
			all["use_skip_indexes"] = "0"
		}
		for name, value := range grant.Settings() {
			all[name] = least(all[name], value)
		}
		if rows := grant.MaxRows(); rows > 0 && rows < math.MaxInt && (n.maxRows == 0 || rows < n.maxRows) {
			n.maxRows = rows
		}
	}
	return all
}

func least(a, b string) string {
	x, errA := strconv.ParseFloat(a, 64)
	y, errB := strconv.ParseFloat(b, 64)
	if errA == nil && errB == nil && x < y {
		return a
	}
	return b
}
