// Package lineage says which tables an answer depends on, so that a write to
// one of them drops it: through views, materialized views and tables that stand
// for others. Statements are parsed by ClickHouse itself.
package lineage

import (
	"context"
	"fmt"
	"log/slog"
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
	// maxDefinitions bounds the views of one server.
	maxDefinitions = 20_000
)

// definitionsQuery lists the tables that are more than their own rows. A user
// sees those that it may see.
const definitionsQuery = `SELECT database, name, engine, engine_full, create_table_query, as_select FROM system.tables
WHERE engine NOT LIKE '%MergeTree' AND NOT is_temporary AND database NOT IN ('system', 'INFORMATION_SCHEMA', 'information_schema')
LIMIT 20001`

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

	statements *memo.Memo[string, references]

	mu         sync.Mutex
	viewpoints *memo.Memo[string, *viewpoint]
}

// viewpoint is one server as one user sees it from one database.
type viewpoint struct {
	// turn holds a token, which who asks ClickHouse takes.
	turn chan struct{}
	// Guarded by turn.
	graph  *graph // nil when it could not be read
	asked  time.Time
	before bool // it was asked at all
}

// New makes a Lineage that knows nothing yet.
func New(o Options) *Lineage {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Lineage{
		logger: o.Logger, now: o.Now, statements: memo.New[string, references](maxStatements), viewpoints: memo.New[string, *viewpoint](maxGraphs),
	}
}

// Forget drops what is known: views may have been made or changed.
func (l *Lineage) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.viewpoints = memo.New[string, *viewpoint](maxGraphs)
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
	found, err := l.parse(ctx, pool, sql)
	if err != nil {
		l.logger.DebugContext(ctx, "cannot tell which tables a statement reads: its answer is cached for a short time", "error", err)
		return cache.Dependencies{}
	}
	return l.follow(ctx, pool, found)
}

func (l *Lineage) follow(ctx context.Context, pool *clickhouse.Pool, found references) cache.Dependencies {
	var tables []string
	for _, name := range found.tables {
		tables = append(tables, resolve(pool.Database(), name)...)
	}
	g, err := l.graph(ctx, pool)
	if err != nil {
		l.logger.DebugContext(ctx, "cannot tell which views there are: an answer is cached for a short time", "error", err)
		return cache.Dependencies{Tables: tables}
	}
	all, complete := g.closure(tables)
	return cache.Dependencies{Tables: all, Complete: complete && !found.opaque}
}

// graph returns what is known of the pool's views, asking when that is old.
func (l *Lineage) graph(ctx context.Context, pool *clickhouse.Pool) (*graph, error) {
	p := l.viewpoint(pool.Identity())
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	select {
	case <-p.turn:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { p.turn <- struct{}{} }()
	age := l.now().Sub(p.asked)
	switch {
	case p.graph != nil && age < refreshEvery:
		return p.graph, nil
	case p.before && p.graph == nil && age < retryAfter:
		return nil, errLately
	}
	g, err := l.load(ctx, pool)
	p.graph, p.asked, p.before = g, l.now(), true
	return g, err
}

func (l *Lineage) viewpoint(identity string) *viewpoint {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, known := l.viewpoints.Get(identity)
	if !known {
		p = &viewpoint{turn: make(chan struct{}, 1)}
		p.turn <- struct{}{}
		l.viewpoints.Put(identity, p)
	}
	return p
}

// load reads the definitions and what their SELECTs refer to.
func (l *Lineage) load(ctx context.Context, pool *clickhouse.Pool) (*graph, error) {
	definitions, selects, err := readDefinitions(ctx, pool)
	if err != nil {
		return nil, err
	}
	for i := range definitions {
		if selects[i] == "" {
			continue
		}
		if definitions[i].reads, err = l.parse(ctx, pool, selects[i]); err != nil {
			return nil, fmt.Errorf("parse the view %s: %w", definitions[i].name, err)
		}
	}
	return newGraph(definitions), nil
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

// parse has ClickHouse parse a statement, once.
func (l *Lineage) parse(ctx context.Context, pool *clickhouse.Pool, sql string) (references, error) {
	found, known := l.statements.Get(sql)
	if known {
		return found, nil
	}
	var tree []string
	if err := pool.EachRow(ctx, "EXPLAIN AST "+sql, 1, func(row []string) error {
		tree = append(tree, row[0])
		return nil
	}); err != nil {
		return references{}, fmt.Errorf("parse a statement: %w", err)
	}
	found = parseTree(tree)
	l.statements.Put(sql, found)
	return found, nil
}
