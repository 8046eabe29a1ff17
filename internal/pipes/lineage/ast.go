package lineage

import "strings"

// References are what a statement reads, by its syntax alone. They must not be
// changed.
type References struct {
	// Tables are names as written, with a database or without: of tables, and of
	// what WITH calls so.
	Tables []string
	// Functions are called by name; TableFunctions stand where a table may.
	Functions, TableFunctions []string
	// Opaque: it reads something else too, or may.
	Opaque bool
	// Settings: it sets some for itself, or a part of it.
	Settings bool

	// clock: it may ask for the time without calling a function.
	clock bool
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
func parseTree(rows []string) References {
	lines := make([]line, len(rows))
	for i, row := range rows {
		lines[i] = parseLine(row)
	}
	var found References
	if len(lines) == 0 || lines[0].kind != "SelectWithUnionQuery" {
		found.Opaque = true
	}
	for i, l := range lines {
		switch l.kind {
		case "TableIdentifier":
			found.Tables = append(found.Tables, l.name)
			found.Opaque = found.Opaque || l.name == ""
		case "TableExpression":
			if i+1 < len(lines) && lines[i+1].kind == "Function" {
				found.TableFunctions = append(found.TableFunctions, lines[i+1].name)
			}
		case "Function":
			if i == 0 || lines[i-1].kind != "TableExpression" {
				found.Functions = append(found.Functions, l.name)
			}
			if table, ok := setTable(lines, i); ok {
				found.Tables = append(found.Tables, table)
			}
		case "Identifier":
			found.clock = found.clock || clock(l.name)
		case "Set":
			found.Settings = true
		default:
			found.Opaque = found.Opaque || !harmless(l.kind)
		}
	}
	return found
}

// harmless reports whether a node of this kind reads no table by itself.
func harmless(kind string) bool {
	switch kind {
	case "SelectWithUnionQuery", "SelectIntersectExceptQuery", "SelectQuery", "Subquery", "WithElement", "ExpressionList",
		"TablesInSelectQuery", "TablesInSelectQueryElement", "TableJoin", "ArrayJoin", "SampleRatio",
		"Literal", "Asterisk", "QualifiedAsterisk", "ColumnsListMatcher", "ColumnsRegexpMatcher",
		"QualifiedColumnsListMatcher", "QualifiedColumnsRegexpMatcher", "ColumnsTransformerList", "ColumnsApplyTransformer",
		"ColumnsExceptTransformer", "ColumnsReplaceTransformer", "ColumnsReplaceTransformer::Replacement",
		"OrderByElement", "InterpolateElement", "WindowDefinition", "WindowListElement":
		return true
	}
	return false
}

// clock reports whether a name that is written as a column's may stand for the
// time. ClickHouse takes these names of functions without parentheses, and tells
// nowhere that it does.
func clock(name string) bool {
	switch strings.ToLower(name) {
	case "now", "today", "curdate", "current_date", "current_timestamp", "localtime", "localtimestamp":
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

// pureTable reports whether a table function reads nothing that changes, beside
// what its arguments read.
func pureTable(name string) bool {
	switch strings.ToLower(name) {
	case "numbers", "numbers_mt", "zeros", "zeros_mt", "values", "null", "generate_series", "generateseries", "view", "format":
		return true
	}
	return false
}
