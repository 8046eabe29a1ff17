package scope

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
)

// maxTree bounds what ClickHouse says of a statement, in bytes.
const maxTree = 16 << 20

// Verify has ClickHouse analyse the statement as it is about to be sent, and
// reads from its answer that no table is met but as a grant shows it. The error
// is a *Denied, or why ClickHouse could not be asked.
func (s *Statement) Verify(ctx context.Context, pool *clickhouse.Pool, request clickhouse.Request) error {
	request.SQL = "EXPLAIN QUERY TREE passes = 1 " + request.SQL
	request.Settings = maps.Clone(request.Settings)
	request.Settings["default_format"] = "TabSeparatedRaw"
	request.MaxResponseBytes = maxTree
	response, err := pool.Query(ctx, request)
	if err != nil {
		return unseen(err)
	}
	defer func() { _ = response.Body.Close() }()
	tree, err := response.ReadAll()
	if err != nil {
		return unseen(err)
	}
	return s.judge(strings.Split(strings.TrimSuffix(string(tree), "\n"), "\n"))
}

// unseen is a *Denied when the statement names what its caller may not see, or
// reads it in a way that a part of a table cannot be read.
func unseen(err error) error {
	if said, ok := errors.AsType[*clickhouse.Error](err); ok {
		switch said.Code {
		case 1, 10, 16, 47, 60, 141, 181, 182:
			return denied("%s", said.Message)
		}
	}
	return fmt.Errorf("analyse the statement: %w", err)
}

// node is one of a tree: "TABLE id: 3, alias: __table1, table_name: db.t".
var node = regexp.MustCompile(`^([A-Z_ ]+) id: [0-9]+(?:, (.*))?$`)

// judge reads a tree. Each table stands in the SELECT of its own WITH, whose
// names begin as no other does. What it does not know it refuses.
func (s *Statement) judge(tree []string) error {
	var (
		around  selects
		skipped = -1 // the depth below which names of columns stand
	)
	for _, text := range tree {
		trimmed := strings.TrimLeft(text, " ")
		depth := len(text) - len(trimmed)
		if skipped >= 0 && depth > skipped {
			continue
		}
		skipped = -1
		around = around.at(depth)
		found := node.FindStringSubmatch(trimmed)
		if found == nil {
			if trimmed == "PROJECTION COLUMNS" {
				skipped = depth
			}
			switch {
			case !label(trimmed):
				return denied("the analysis has a line that is not known: %q", trimmed)
			case trimmed == "PREWHERE" && s.tables[around.with()] == "":
				return denied("the statement has a PREWHERE of its own")
			}
			continue
		}
		switch kind, rest := found[1], found[2]; kind {
		case "QUERY":
			around = append(around, selected{depth, lastOf(rest, "cte_name: ")})
		case "TABLE":
			if !s.mayStand(around.with(), rest) {
				return denied("a table is read that no grant covers: %s", rest)
			}
		case "TABLE_FUNCTION":
			if name := lastOf(rest, "table_function_name: "); !harmlessTable(name) {
				return denied("the table function %s is read", name)
			}
		case "UNION", "LIST", "COLUMN", "FUNCTION", "CONSTANT", "JOIN", "CROSS JOIN", "ARRAY_JOIN", "LAMBDA", "SORT", "WINDOW", "INTERPOLATE":
		default:
			return denied("the analysis has a node that is not known: %s", kind)
		}
	}
	return nil
}

// selected is a SELECT in a tree, and the name that it has in WITH; "" has none.
type selected struct {
	depth int
	with  string
}

// selects are those that a line is in, the innermost last.
type selects []selected

// at leaves those in which a line at that depth is.
func (all selects) at(depth int) selects {
	for len(all) > 0 && all[len(all)-1].depth >= depth {
		all = all[:len(all)-1]
	}
	return all
}

func (all selects) with() string {
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1].with
}

// mayStand reports whether a table is where it belongs.
func (s *Statement) mayStand(cte, attributes string) bool {
	if temporary := lastOf(attributes, "temporary_table_name: "); temporary != "" {
		return strings.HasPrefix(temporary, s.prefix)
	}
	name := lastOf(attributes, "table_name: ")
	return name == "system.one" || name != "" && name == s.tables[cte]
}

// lastOf returns what follows the last such word, to the end.
func lastOf(attributes, word string) string {
	if at := strings.LastIndex(attributes, word); at >= 0 && (at == 0 || strings.HasSuffix(attributes[:at], ", ")) {
		return attributes[at+len(word):]
	}
	return ""
}

// label reports whether a line says what the nodes below it are.
func label(line string) bool {
	first, _, _ := strings.Cut(line, " ")
	switch first {
	case "PROJECTION", "JOIN", "WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY", "ORDER", "INTERPOLATE", "LIMIT", "OFFSET", "PREWHERE",
		"EXPRESSION", "ARGUMENTS", "PARAMETERS", "TABLE", "LEFT", "RIGHT", "QUERIES", "WITH", "FILL", "CORRELATED", "PARTITION", "FRAME":
		return true
	}
	return false
}
