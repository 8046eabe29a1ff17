package rehearsal

import (
	"encoding/json"
	"regexp"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/policy"
)

// listTable matches the tables that a condition reads lists from.
var listTable = regexp.MustCompile(`\(SELECT v FROM (\w+)\)`)

// listsOf gives the lists of a condition the names that it calls them by. They
// stand in it in the order of the predicate.
func listsOf(sql string, predicate *policy.Predicate) map[string][]json.RawMessage {
	tables := listTable.FindAllStringSubmatch(sql, -1)
	lists := appendLists(nil, predicate)
	if len(tables) == 0 || len(tables) != len(lists) {
		return nil
	}
	named := make(map[string][]json.RawMessage, len(tables))
	for i, table := range tables {
		named[table[1]] = lists[i]
	}
	return named
}

func appendLists(lists [][]json.RawMessage, p *policy.Predicate) [][]json.RawMessage {
	switch p.Op {
	case policy.OpAnd, policy.OpOr, policy.OpNot:
		for i := range p.Args {
			lists = appendLists(lists, &p.Args[i])
		}
	case policy.OpIn, policy.OpNin:
		// Floats are compared one by one, and their values are parameters.
		if t, err := coltype.Parse(p.Type); err == nil && t.Plain().Kind != coltype.Float {
			lists = append(lists, p.Values)
		}
	}
	return lists
}
