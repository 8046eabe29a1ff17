package lineage

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
)

// maxFunctions bounds the functions of one server.
const maxFunctions = 20_000

// functionsQuery lists the functions of a server with what it says of each. Its
// column has another name in newer versions.
const functionsQuery = `SELECT name, toString(case_insensitive),
multiIf(is_aggregate, 'aggregate', ifNull(COLUMNS('^(is_)?deterministic$'), 0) = 1, 'steady', ''), alias_to FROM system.functions
UNION ALL SELECT name, '', 'combinator', '' FROM system.aggregate_function_combinators
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
	byName map[string]function
	// anyCase are those whose names may be written in any case, in lower case.
	anyCase     map[string]function
	combinators []string
}

// function is one name of a function, and its first name; "" is this one.
type function struct {
	kind  kind
	alias string
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
	f := &Functions{byName: map[string]function{}, anyCase: map[string]function{}}
	err := pool.EachRow(ctx, functionsQuery, 4, func(row []string) error {
		name, is := strings.Clone(row[0]), function{kind(row[2]), strings.Clone(row[3])}
		switch {
		case len(f.byName) == maxFunctions:
			return errTooMany
		case is.kind == combinator:
			f.combinators = append(f.combinators, name)
			return nil
		case row[1] == "1":
			is.alias = cmp.Or(is.alias, name)
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
		_, aggregates := f.Aggregate(name)
		return aggregates || syntax(name)
	case name == "arrayJoin":
		return true // it is said to vary because it makes several rows of one
	}
	return is.kind == steady || is.kind == aggregate
}

// Aggregate returns the first name of the aggregate function that is called by
// this one, without the combinators behind it; ok says that it is one.
func (f *Functions) Aggregate(name string) (first string, ok bool) {
	if is, known := f.lookup(name); known {
		return cmp.Or(is.alias, name), is.kind == aggregate
	}
	for _, c := range f.combinators {
		if base, behind := strings.CutSuffix(name, c); behind && c != "" && base != "" {
			if first, ok = f.Aggregate(base); ok {
				return first, true
			}
		}
	}
	return "", false
}

func (f *Functions) lookup(name string) (is function, known bool) {
	if is, known = f.byName[name]; !known {
		is, known = f.anyCase[strings.ToLower(name)]
	}
	return is, known
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
