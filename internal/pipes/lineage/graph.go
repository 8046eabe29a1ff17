package lineage

import (
	"strings"
)

// maxTables bounds what one answer may depend on by name.
const maxTables = 500

// graph says what a change to one table changes with it: views, the targets of
// materialized views, tables that stand for others.
type graph struct {
	nodes map[string]*node
	// mark is what the definitions were known by when they were read.
	mark string
}

// references are what a view reads.
type references struct {
	tables []string
	// opaque: it reads something else too, or may, or answers differently by the
	// clock or by chance.
	opaque bool
}

// node is what reading one table reads.
type node struct {
	sources []string
	opaque  bool
}

// definition is a table that is more than its own rows.
type definition struct {
	database, name, engine, engineFull, create string
	reads                                      references // of its SELECT
}

func newGraph(definitions []definition) *graph {
	g := &graph{nodes: map[string]*node{}}
	for _, d := range definitions {
		g.add(d)
	}
	return g
}

func (g *graph) of(table string) *node {
	n := g.nodes[table]
	if n == nil {
		n = &node{}
		g.nodes[table] = n
	}
	return n
}

func (g *graph) add(d definition) {
	own := qualified(d.database, d.name)
	n := g.of(own)
	switch d.engine {
	case "View":
		g.selects(n, d)
	case "MaterializedView":
		g.selects(n, d)
		target, refreshed := targetOf(d.create)
		n.opaque = n.opaque || refreshed
		for _, table := range resolve(d.database, target) {
			n.sources = append(n.sources, table)
			g.of(table).sources = append(g.of(table).sources, own)
		}
	case "Buffer", "Distributed":
		g.standsFor(n, own, d)
	case "Memory", "Null", "Set", "Join", "Log", "TinyLog", "StripeLog", "EmbeddedRocksDB":
	default:
		n.opaque = true
	}
}

func (g *graph) selects(n *node, d definition) {
	n.opaque = n.opaque || d.reads.opaque
	for _, table := range d.reads.tables {
		n.sources = append(n.sources, resolve(d.database, table)...)
	}
}

// standsFor links a table to the one behind it, both ways: rows pass through.
func (g *graph) standsFor(n *node, own string, d definition) {
	arguments := stringArguments(d.engineFull)
	if d.engine == "Distributed" {
		n.opaque = true // the other shards have writers of their own
		if len(arguments) > 0 {
			arguments = arguments[1:]
		}
	}
	if len(arguments) < 2 {
		n.opaque = true
		return
	}
	database, table := arguments[0], arguments[1]
	if database == "" {
		database = d.database
	}
	behind := qualified(database, table)
	n.sources = append(n.sources, behind)
	g.of(behind).sources = append(g.of(behind).sources, own)
}

// closure returns every table that the tables depend on, themselves included.
func (g *graph) closure(tables []string) (all []string, complete bool) {
	seen := map[string]bool{}
	complete = true
	for queue := tables; len(queue) > 0; queue = queue[1:] {
		table := queue[0]
		if seen[table] {
			continue
		}
		if len(all) == maxTables {
			return all, false
		}
		seen[table] = true
		all = append(all, table)
		if n := g.nodes[table]; n != nil {
			complete = complete && !n.opaque
			queue = append(queue, n.sources...)
		}
	}
	return all, complete
}

// Name is how a table is called where writes are told: database and table.
func Name(database, table string) string { return qualified(database, table) }

func qualified(database, table string) string { return database + "." + table }

// resolve returns what a name in a statement may stand for: a name with a dot
// is a table of another database, or a table of this one that is called so.
func resolve(database, name string) []string {
	if name == "" {
		return nil
	}
	here := qualified(database, name)
	if strings.Contains(name, ".") {
		return []string{name, here}
	}
	return []string{here}
}

// targetOf reads where a materialized view writes, "" for a table of its own,
// and whether it runs by the clock. The text is as ClickHouse prints it.
func targetOf(create string) (target string, refreshed bool) {
	_, rest, ok := strings.Cut(create, "MATERIALIZED VIEW ")
	if !ok {
		return "", true
	}
	_, rest = cutPath(rest)
	head := rest
	for _, end := range []string{" (", " ENGINE", " AS "} {
		if at := strings.Index(head, end); at >= 0 {
			head = head[:at]
		}
	}
	refreshed = strings.Contains(head, " REFRESH ")
	if at := strings.Index(head, " TO "); at >= 0 {
		target, _ = cutPath(rest[at+len(" TO "):])
	}
	return target, refreshed
}

// cutPath reads a name with dots, quoted or not, and returns it unquoted.
func cutPath(text string) (path, rest string) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '`':
			for i++; i < len(text) && text[i] != '`'; i++ {
				if text[i] == '\\' && i+1 < len(text) {
					i++
				}
				b.WriteByte(text[i])
			}
		case ' ', '(', '\n':
			return b.String(), text[i:]
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), ""
}

// stringArguments reads the leading quoted arguments of an engine:
// Buffer('db', 'table', 16, …).
func stringArguments(engine string) []string {
	_, rest, ok := strings.Cut(engine, "(")
	if !ok {
		return nil
	}
	var arguments []string
	for {
		rest = strings.TrimLeft(rest, " ,")
		if !strings.HasPrefix(rest, "'") {
			return arguments
		}
		var b strings.Builder
		i := 1
		for ; i < len(rest) && rest[i] != '\''; i++ {
			if rest[i] == '\\' && i+1 < len(rest) {
				i++
			}
			b.WriteByte(rest[i])
		}
		arguments = append(arguments, b.String())
		rest = rest[min(i+1, len(rest)):]
	}
}
