package lineage

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
)

// maxFunctions bounds the functions of one server.
const maxFunctions = 20_000

// functionsQuery lists the functions of a server with what it says of each. Its
// column has another name in newer versions.
const functionsQuery = `SELECT name, toString(case_insensitive),
multiIf(is_aggregate, 'aggregate', ifNull(COLUMNS('^(is_)?deterministic$'), 0) = 1, 'steady', '') FROM system.functions
UNION ALL SELECT name, '', 'combinator' FROM system.aggregate_function_combinators
LIMIT 20001`

// kind is what a server says of a function.
type kind string

const (
	aggregate  kind = "aggregate"
	combinator kind = "combinator"
	// steady functions answer alike whenever they are asked alike.
	steady kind = "steady"
)

// Functions says of the functions of one server what their answers depend on. It
// is immutable.
type Functions struct {
	byName map[string]kind
	// anyCase are those whose names may be written in any case, in lower case.
	anyCase     map[string]kind
	combinators []string
}

// Functions returns what the pool's server says of its functions.
func (l *Lineage) Functions(ctx context.Context, pool *clickhouse.Pool) (*Functions, error) {
	k := remembered(l, l.functions, pool.Server())
	f, err := k.get(ctx, l.now, func(ctx context.Context) (*Functions, error) { return readFunctions(ctx, pool) })
	if err != nil {
		return nil, fmt.Errorf("list functions: %w", err)
	}
	return f, nil
}

func readFunctions(ctx context.Context, pool *clickhouse.Pool) (*Functions, error) {
	f := &Functions{byName: map[string]kind{}, anyCase: map[string]kind{}}
	err := pool.EachRow(ctx, functionsQuery, 3, func(row []string) error {
		name, is := strings.Clone(row[0]), kind(row[2])
		switch {
		case len(f.byName) == maxFunctions:
			return errTooMany
		case is == combinator:
			f.combinators = append(f.combinators, name)
			return nil
		case row[1] == "1":
			f.anyCase[strings.ToLower(name)] = is
		}
		f.byName[name] = is
		return nil
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Steady reports whether a call of the function by this name depends on its
// arguments alone, or is an aggregate of them. What is not known is not.
func (f *Functions) Steady(name string) bool {
	is, known := f.lookup(name)
	switch {
	case !known:
		return syntax(name) || f.aggregates(name)
	case name == "arrayJoin":
		return true // it is said to vary because it makes several rows of one
	}
	return is == steady || is == aggregate
}

// Aggregates reports whether the name is that of an aggregate function, with
// combinators behind it or without.
func (f *Functions) Aggregates(name string) bool {
	is, known := f.lookup(name)
	return known && is == aggregate || !known && f.aggregates(name)
}

func (f *Functions) lookup(name string) (is kind, known bool) {
	if is, known = f.byName[name]; !known {
		is, known = f.anyCase[strings.ToLower(name)]
	}
	return is, known
}

// aggregates takes combinators off until an aggregate function is left.
func (f *Functions) aggregates(name string) bool {
	return slices.ContainsFunc(f.combinators, func(c string) bool {
		base, ok := strings.CutSuffix(name, c)
		return ok && c != "" && base != "" && f.Aggregates(base)
	})
}

// syntax reports whether the name is one that ClickHouse's parser gives to what
// is no call: the list of functions lacks them.
func syntax(name string) bool {
	switch name {
	case "lambda", "exists", "untuple", "grouping":
		return true
	}
	return false
}
