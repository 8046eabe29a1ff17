// Package lineage says which tables an answer depends on, so that a write to
// one of them drops it: through views, materialized views and tables that stand
// for others. Statements are parsed by ClickHouse itself.
package lineage

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/memo"
)

const (
	// refreshEvery is how long what is known of the views holds, so that one
	// made around the server is seen.
	refreshEvery = time.Minute
	// retryAfter is how long a failure holds.
	retryAfter = 2 * time.Second
	// askTimeout bounds the wait for an answer: without one the result is
	// cached for a short time only.
	askTimeout = 5 * time.Second
	// maxStatements bounds the statements whose tables are remembered.
	maxStatements = 4096
	// maxGraphs bounds the databases whose views are remembered.
	maxGraphs = 4096
	// maxServers bounds the servers whose functions are remembered.
	maxServers = 64
	// maxDefinitions bounds the views of one server.
	maxDefinitions = 20_000
)

// definitionsQuery lists the tables that are more than their own rows. A user
// sees those that it may see.
const definitionsQuery = `SELECT database, name, engine, engine_full, create_table_query, as_select FROM system.tables
` + others + ` LIMIT 20001`

// others are the tables that are more than their own rows.
const others = `WHERE engine NOT LIKE '%MergeTree' AND NOT is_temporary AND database NOT IN ('system', 'INFORMATION_SCHEMA', 'information_schema')`

// Options are what a Lineage is made with. The zero value works.
type Options struct {
	Logger *slog.Logger     // nil discards
	Now    func() time.Time // nil is time.Now
}

// Lineage remembers what it asked ClickHouse. Its methods may be called by many
// goroutines.
type Lineage struct {
	logger *slog.Logger
	now    func() time.Time

	statements *memo.Memo[string, References]
	functions  *memo.Memo[string, *kept[Functions]] // by server

	mu sync.Mutex
	// viewpoints are servers as one user sees them from one database.
	viewpoints *memo.Memo[string, *kept[graph]]
}

// New makes a Lineage that knows nothing yet.
func New(o Options) *Lineage {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Lineage{
		logger: o.Logger, now: o.Now, statements: memo.New[string, References](maxStatements),
		functions: memo.New[string, *kept[Functions]](maxServers), viewpoints: memo.New[string, *kept[graph]](maxGraphs),
	}
}

// Forget drops what is known: views may have been made or changed.
func (l *Lineage) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.viewpoints = memo.New[string, *kept[graph]](maxGraphs)
}

// remembered returns what is kept under the key, made when there is nothing.
func remembered[T any](l *Lineage, of *memo.Memo[string, *kept[T]], key string) *kept[T] {
	l.mu.Lock()
	defer l.mu.Unlock()
	k, known := of.Get(key)
	if !known {
		k = newKept[T]()
		of.Put(key, k)
	}
	return k
}

func (l *Lineage) viewpoint(pool *clickhouse.Pool) *kept[graph] {
	l.mu.Lock()
	viewpoints := l.viewpoints
	l.mu.Unlock()
	return remembered(l, viewpoints, pool.Identity())
}

// Tables are the dependencies of reading the named tables, written as in a
// statement of the pool's database.
func (l *Lineage) Tables(ctx context.Context, pool *clickhouse.Pool, names ...string) cache.Dependencies {
	return l.follow(ctx, pool, references{tables: names})
}

// Statement are the dependencies of a statement, which is parsed and not run.
func (l *Lineage) Statement(ctx context.Context, pool *clickhouse.Pool, sql string) cache.Dependencies {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	found, err := l.References(ctx, pool, sql)
	if err != nil {
		l.logger.DebugContext(ctx, "cannot tell which tables a statement reads: its answer is cached for a short time", "error", err)
		return cache.Dependencies{}
	}
	return l.follow(ctx, pool, references{tables: found.Tables, opaque: l.varies(ctx, pool, found)})
}

// varies reports whether a statement may be answered otherwise without any of
// its tables being written.
func (l *Lineage) varies(ctx context.Context, pool *clickhouse.Pool, found References) bool {
	if found.Opaque || found.clock || !every(found.TableFunctions, pureTable) {
		return true
	}
	if len(found.Functions) == 0 {
		return false
	}
	functions, err := l.Functions(ctx, pool)
	if err != nil {
		l.logger.DebugContext(ctx, "cannot tell which functions vary: an answer is cached for a short time", "error", err)
		return true
	}
	return !every(found.Functions, functions.Steady)
}

func every(names []string, holds func(string) bool) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !holds(name) })
}

func (l *Lineage) follow(ctx context.Context, pool *clickhouse.Pool, found references) cache.Dependencies {
	var tables []string
	for _, name := range found.tables {
		tables = append(tables, resolve(pool.Database(), name)...)
	}
	g, err := l.viewpoint(pool).get(ctx, l.now, func(ctx context.Context) (*graph, error) { return l.load(ctx, pool) })
	if err != nil {
		l.logger.DebugContext(ctx, "cannot tell which views there are: an answer is cached for a short time", "error", err)
		return cache.Dependencies{Tables: tables}
	}
	all, complete := g.closure(tables)
	deps := cache.Dependencies{Tables: all, Complete: complete && !found.opaque}
	if deps.Complete {
		deps.Confirm = func(ctx context.Context) bool { return l.confirm(ctx, pool, g) }
	}
	return deps
}

// load reads the definitions and what their SELECTs refer to.
func (l *Lineage) load(ctx context.Context, pool *clickhouse.Pool) (*graph, error) {
	// Before the definitions: what changes while they are read is seen later.
	mark, err := readMark(ctx, pool)
	if err != nil {
		return nil, err
	}
	definitions, selects, err := readDefinitions(ctx, pool)
	if err != nil {
		return nil, err
	}
	for i := range definitions {
		if selects[i] == "" {
			continue
		}
		found, err := l.References(ctx, pool, selects[i])
		if err != nil {
			return nil, fmt.Errorf("parse the view %s: %w", definitions[i].name, err)
		}
		definitions[i].reads = references{tables: found.Tables, opaque: l.varies(ctx, pool, found)}
	}
	g := newGraph(definitions)
	g.mark = mark
	return g, nil
}

func readDefinitions(ctx context.Context, pool *clickhouse.Pool) (definitions []definition, selects []string, err error) {
	err = pool.EachRow(ctx, definitionsQuery, 6, func(row []string) error {
		if len(definitions) == maxDefinitions {
			return errTooMany
		}
		definitions = append(definitions, definition{database: row[0], name: row[1], engine: row[2], engineFull: row[3], create: row[4]})
		selects = append(selects, row[5])
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("list views: %w", err)
	}
	return definitions, selects, nil
}

// References has ClickHouse parse a statement, once.
func (l *Lineage) References(ctx context.Context, pool *clickhouse.Pool, sql string) (References, error) {
	found, known := l.statements.Get(sql)
	if known {
		return found, nil
	}
	var tree []string
	if err := pool.EachRow(ctx, "EXPLAIN AST "+sql, 1, func(row []string) error {
		tree = append(tree, row[0])
		return nil
	}); err != nil {
		return References{}, fmt.Errorf("parse a statement: %w", err)
	}
	found = parseTree(tree)
	l.statements.Put(sql, found)
	return found, nil
}
