package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
	"github.com/wavehouse/wavehouse/internal/pipes"
	"github.com/wavehouse/wavehouse/internal/pipes/lineage"
	"github.com/wavehouse/wavehouse/internal/pipes/scope"
	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/query"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/schema"
	"github.com/wavehouse/wavehouse/internal/strictjson"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

var (
	parityFor  = flag.Duration("parity", 12*time.Second, "how long to compare generated policies on both paths")
	paritySeed = seedFlag("parity.seed", "the policies")
)

// One grant answers a query and the stream: for generated tables, rows, rules
// and claims, the rows that ClickHouse returns are those that the predicate
// admits, and what it cannot judge it withholds. A pipe that sees the table as its
// caller does returns the same.
func TestParityOfTheTwoPaths(t *testing.T) {
	seed := paritySeed.draw(t)
	r := rand.New(rand.NewPCG(seed, 1))
	ch := clickhousetest.Start(t)
	pool := poolOf(t, ch)
	counts := map[string]int{}
	subjects := []string{"shown", "hidden", "withheld", "no row for a claim", "through a pipe"}
	met := func() bool {
		return !slices.ContainsFunc(subjects, func(what string) bool { return counts[what] <= 50 })
	}
	// A machine that is busy takes longer to meet them all.
	for began, n := time.Now(), 0; time.Since(began) < *parityFor || !met() && time.Since(began) < 10*(*parityFor); n++ {
		p := newParityTable(t, r, ch, pool, fmt.Sprintf("parity%d", n))
		for range 150 {
			if p.compare(t, r, pool, counts); t.Failed() {
				return
			}
		}
	}
	t.Log(counts)
	for _, what := range subjects {
		assert.Greater(t, counts[what], 50, "the test has met its subject: %s", what)
	}
	assert.Less(t, counts["withheld"], counts["shown"]+counts["hidden"], "most rows are decided")
}

func poolOf(t *testing.T, ch *clickhousetest.Server) *clickhouse.Pool {
	t.Helper()
	pools := clickhouse.NewPools(clickhouse.Options{})
	t.Cleanup(func() { pools.Close(context.Background()) })
	require.Empty(t, pools.Reconcile(map[tenant.ID]clickhouse.Config{tenant.Default: {
		Addr: ch.Host, HTTPScheme: "http", HTTPPort: ch.HTTPPort, Database: ch.Database, Username: "default", QueryTimeout: time.Minute,
	}}))
	pool, err := pools.Get(tenant.Default)
	require.NoError(t, err)
	return pool
}

// parityTable is a generated table with its rows, as they were sent.
type parityTable struct {
	columns []generatedColumn
	table   *schema.Table
	rows    []parityRow
	lineage *lineage.Lineage
}

type parityRow struct {
	id     int
	set    *record.ColumnSet
	layout *record.Layout
	row    []byte
}

func newParityTable(t *testing.T, r *rand.Rand, ch *clickhousetest.Server, pool *clickhouse.Pool, name string) *parityTable {
	t.Helper()
	p := &parityTable{columns: parityColumns(r, 4+r.IntN(9)), lineage: lineage.New(lineage.Options{})}
	definitions := []string{"id UInt64"}
	key := ""
	for _, c := range p.columns {
		definitions = append(definitions, clickhouse.QuoteIdent(c.name)+" "+c.typ+c.clause)
		if c.decidable && r.IntN(8) == 0 && !strings.Contains(c.typ, "Nullable") && !strings.HasPrefix(c.typ, "Map") {
			key += clickhouse.QuoteIdent(c.name) + ", "
		}
	}
	ch.Exec(t, "CREATE TABLE "+name+" ("+strings.Join(definitions, ", ")+") ENGINE = MergeTree ORDER BY ("+key+"id) SETTINGS index_granularity = 8")
	p.table = describe(t, ch, name)
	for range 5 {
		p.insert(t, r, pool)
	}
	return p
}

// describe reads a table's columns as the schema discovery does.
func describe(t *testing.T, ch *clickhousetest.Server, name string) *schema.Table {
	t.Helper()
	s := &schema.Table{Name: name, Engine: "MergeTree"}
	for i, row := range ch.Rows(t, "SELECT name, type, default_kind, default_expression FROM system.columns"+
		" WHERE database = currentDatabase() AND table = "+clickhouse.QuoteString(name)+" ORDER BY position") {
		s.Columns = append(s.Columns, record.Column{
			Name: row[0], Type: row[1], Position: i + 1, DefaultKind: record.DefaultKind(row[2]), DefaultExpression: row[3],
		})
	}
	s.Record = record.Compile(name, s.Columns, time.UTC)
	return s
}

// insert stores rows of one set of columns, as the worker would.
func (p *parityTable) insert(t *testing.T, r *rand.Rand, pool *clickhouse.Pool) {
	t.Helper()
	carried := make([]bool, len(p.columns))
	for i := range carried {
		carried[i] = r.IntN(5) > 0
	}
	var body []byte
	for range 12 {
		body = append(append(body, rowJSON(r, len(p.rows)+bytes.Count(body, []byte("\n")), p.columns, carried)...), '\n')
	}
	batches := map[*record.ColumnSet][]byte{}
	d := p.table.Record.NewDecoder(record.NDJSON, body, record.DecodeOptions{MissingAsZero: true})
	first := len(p.rows)
	for d.Next() {
		rec := d.Record()
		require.Nil(t, rec.Err, "%s: %v", body, rec.Err)
		layout, err := record.ParseLayout(rec.Set.Header(), time.UTC)
		require.NoError(t, err)
		p.rows = append(p.rows, parityRow{id: first + rec.Index - 1, set: rec.Set, layout: layout, row: bytes.Clone(rec.Row)})
		batches[rec.Set] = append(batches[rec.Set], rec.Row...)
	}
	require.NoError(t, d.Err())
	for set, rows := range batches {
		layout, err := record.ParseLayout(set.Header(), time.UTC)
		require.NoError(t, err)
		var names []string
		for _, name := range layout.Names() {
			names = append(names, clickhouse.QuoteIdent(name))
		}
		require.NoError(t, pool.Insert(t.Context(), clickhouse.Request{
			SQL:  "INSERT INTO " + p.table.Name + " (" + strings.Join(names, ", ") + ") FORMAT RowBinaryWithNamesAndTypes",
			Body: bytes.NewReader(append(layout.AppendNamesAndTypes(nil), rows...)),
		}))
	}
}

// compare makes up a rule and holds both paths against each other.
func (p *parityTable) compare(t *testing.T, r *rand.Rand, pool *clickhouse.Pool, counts map[string]int) {
	t.Helper()
	m := &ruleMaker{r: r, columns: p.columns, claims: map[string]any{}}
	filter, err := json.Marshal(m.rule(2))
	require.NoError(t, err)
	sound := m.sound(filter)
	bound := p.grant(t, filter).Bind(m.claims, p.table.Record)
	require.NoError(t, bound.Fault(), "%s", filter)
	require.Equal(t, sound, bound.Unresolved() == "", "%s with %v: %s", filter, m.claims, bound.Unresolved())
	stored, sql := p.stored(t, pool, bound)
	if r.IntN(4) == 0 {
		counts["through a pipe"]++
		require.Equal(t, stored, p.piped(t, pool, bound), "%s with %v: %s", filter, m.claims, sql)
	}
	if !sound {
		counts["no row for a claim"]++
		require.Empty(t, stored, "%s with %v", filter, m.claims)
	}
	mayWithhold := p.undecidable(m.used)
	for _, row := range p.rows {
		shown, err := bound.Visible(row.layout, row.row)
		switch {
		case err != nil:
			counts["withheld"]++
			require.True(t, mayWithhold(row), "row %d was withheld without need: %s", row.id, filter)
			require.False(t, shown)
			continue
		case shown:
			counts["shown"]++
		default:
			counts["hidden"]++
		}
		object, _ := row.layout.AppendObject(nil, row.row, nil, record.RenderOptions{})
		require.Equal(t, stored[row.id], shown, "row %d: %s\nfilter %s\nclaims %v\n%s\n%v", row.id, object, filter, m.claims, sql, p.table.Columns)
	}
}

func (p *parityTable) grant(t *testing.T, filter []byte) *policy.SelectGrant {
	t.Helper()
	text := `{"tables":{"*":{"viewer":{"select":{"allow_columns":["id"],"filter":` + string(filter) + `}}}}}`
	var doc policy.Document
	require.Empty(t, strictjson.Decode([]byte(text), &doc), text)
	compiled, faults, _ := policy.Compile(&doc, []string{"viewer"})
	require.Empty(t, faults, text)
	grant, err := compiled.Select("viewer", p.table.Name)
	require.NoError(t, err)
	return grant
}

// stored asks ClickHouse which rows the caller may see.
func (p *parityTable) stored(t *testing.T, pool *clickhouse.Pool, bound *policy.BoundSelect) (ids map[int]bool, sql string) {
	t.Helper()
	doc, err := query.Parse([]byte(`{"columns":["id"]}`))
	require.NoError(t, err)
	s, err := query.Build(doc, p.table, bound, query.Options{Now: time.Now()})
	require.NoError(t, err)
	return idsOf(t, pool, clickhouse.Request{SQL: s.SQL, Params: s.Params, Settings: s.Settings, External: s.External, ReadOnly: true}), fmt.Sprint(s.SQL, s.Params)
}

// piped asks the same of a pipe that selects all of the table.
func (p *parityTable) piped(t *testing.T, pool *clickhouse.Pool, bound *policy.BoundSelect) map[int]bool {
	t.Helper()
	all := "SELECT * FROM " + p.table.Name
	narrowed, err := scope.Narrow(t.Context(), pool, p.lineage, &pipes.Statement{SQL: all, Shape: all},
		func(string) (*schema.Table, *policy.BoundSelect, error) { return p.table, bound, nil })
	require.NoError(t, err)
	request := clickhouse.Request{SQL: narrowed.SQL, Params: narrowed.Params, Settings: query.ReadSettings(query.FormatJSON, false), External: narrowed.External, ReadOnly: true}
	maps.Copy(request.Settings, narrowed.Settings)
	require.NoError(t, narrowed.Verify(t.Context(), pool, request), "%s\n%v", narrowed.SQL, narrowed.Params)
	return idsOf(t, pool, request)
}

func idsOf(t *testing.T, pool *clickhouse.Pool, request clickhouse.Request) map[int]bool {
	t.Helper()
	response, err := pool.Query(t.Context(), request)
	require.NoError(t, err, "%s\n%v", request.SQL, request.Params)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, response.Body.Close())
	require.NoError(t, err, "%s\n%v", request.SQL, request.Params)
	var rows []struct {
		ID int `json:"id"`
	}
	require.NoError(t, json.Unmarshal(text, &rows), "%s", text)
	ids := map[int]bool{}
	for _, row := range rows {
		ids[row.ID] = true
	}
	return ids
}

// undecidable says of which rows the predicate need not know: those that lack
// a column of the rule, and all when one of its columns is an aggregate.
func (p *parityTable) undecidable(used []int) func(parityRow) bool {
	return func(row parityRow) bool {
		names := strings.Join(row.layout.Names(), "\x00") + "\x00"
		for _, i := range used {
			if c := p.columns[i]; !c.decidable || !strings.Contains("\x00"+names, "\x00"+c.name+"\x00") {
				return true
			}
		}
		return false
	}
}
