package lineage

import "strings"

// references are what a statement reads, by its syntax alone.
type references struct {
	tables []string
	// opaque: it reads something else too, or may, or answers differently by the
	// clock or by chance.
	opaque bool
}

// line is one node of a syntax tree as ClickHouse prints it.
type line struct {
	depth int
	kind  string
	name  string
}

// parseLine reads "  TableIdentifier db.t (alias x) (children 1)".
func parseLine(text string) line {
	trimmed := strings.TrimLeft(text, " ")
	l := line{depth: len(text) - len(trimmed)}
	if at := strings.LastIndex(trimmed, " (children "); at >= 0 {
		trimmed = trimmed[:at]
	}
	if at := strings.Index(trimmed, " (alias "); at >= 0 {
		trimmed = trimmed[:at]
	}
	l.kind, l.name, _ = strings.Cut(trimmed, " ")
	return l
}

// parseTree collects what the tree of a statement refers to. A tree with anything
// in it that is not known is opaque: what it reads may stand there.
func parseTree(rows []string) references {
	lines := make([]line, len(rows))
	for i, row := range rows {
		lines[i] = parseLine(row)
	}
	var found references
	if len(lines) == 0 || lines[0].kind != "SelectWithUnionQuery" {
		found.opaque = true
	}
	for i, l := range lines {
		switch l.kind {
		case "TableIdentifier":
			found.tables = append(found.tables, l.name)
			found.opaque = found.opaque || l.name == ""
		case "TableExpression":
			if i+1 < len(lines) && lines[i+1].kind == "Function" && !pureTable(lines[i+1].name) {
				found.opaque = true
			}
		case "Function":
			found.opaque = found.opaque || fickle(l.name)
			if table, ok := setTable(lines, i); ok {
				found.tables = append(found.tables, table)
			}
		default:
			found.opaque = found.opaque || !harmless(l.kind)
		}
	}
	return found
}

// harmless reports whether a node of this kind reads no table by itself.
func harmless(kind string) bool {
	switch kind {
	case "SelectWithUnionQuery", "SelectIntersectExceptQuery", "SelectQuery", "Subquery", "WithElement", "ExpressionList",
		"TablesInSelectQuery", "TablesInSelectQueryElement", "TableJoin", "ArrayJoin", "SampleRatio",
		"Identifier", "Literal", "Asterisk", "QualifiedAsterisk", "ColumnsListMatcher", "ColumnsRegexpMatcher",
		"QualifiedColumnsListMatcher", "QualifiedColumnsRegexpMatcher", "ColumnsTransformerList", "ColumnsApplyTransformer",
		"ColumnsExceptTransformer", "ColumnsReplaceTransformer", "ColumnsReplaceTransformer::Replacement",
		"OrderByElement", "InterpolateElement", "WindowDefinition", "WindowListElement", "Set":
		return true
	}
	return false
}

// setTable returns the table of "x IN table", which is written as any name is.
func setTable(lines []line, at int) (string, bool) {
	switch strings.ToLower(lines[at].name) {
	case "in", "notin", "globalin", "globalnotin", "nullin", "notnullin", "globalnullin", "globalnotnullin":
	default:
		return "", false
	}
	arguments := 0
	for _, l := range lines[at+1:] {
		if l.depth <= lines[at].depth {
			break
		}
		if l.depth != lines[at].depth+2 {
			continue
		}
		if arguments++; arguments == 2 {
			return l.name, l.kind == "Identifier"
		}
	}
	return "", false
}

// pureTable reports whether a table function reads nothing that changes.
func pureTable(name string) bool {
	switch strings.ToLower(name) {
	case "numbers", "numbers_mt", "zeros", "zeros_mt", "values", "null", "generate_series", "generateseries", "view", "format":
		return true
	}
	return false
}

// fickle reports whether a function answers differently without any table of
// the statement being written.
func fickle(name string) bool {
	name = strings.ToLower(name)
	for _, prefix := range []string{
		"now", "today", "yesterday", "curdate", "current_", "utc_timestamp", "utctimestamp", "rand", "generate", "dict", "joinget",
		"uptime", "fuzz", "file", "query_id", "queryid", "initial_query", "initialquery", "rownumberinallblocks", "getsetting", "hasthreadfuzzer", "throwif", "sleep", "catboost", "llm", "executable",
	} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
