package pipes

import "strings"

// Unqualify takes the name of a database off the names in a statement of
// ClickHouse's own printing, so that WITH may say what they stand for. It is not
// ok where the name stands for something else as well, or may.
func Unqualify(sql, database string) (plain string, ok bool) {
	tokens := scan(sql)
	var b strings.Builder
	kept := 0
	for i, t := range tokens {
		if (t.kind != word && t.kind != quotedName) || unquoteName(sql[t.start:t.end]) != database {
			if t.kind == quotedName && strings.ContainsRune(sql[t.start:t.end], '\\') {
				return "", false // what it spells is not for this lexer to say
			}
			continue
		}
		if i > 0 && sql[tokens[i-1].start:tokens[i-1].end] == "." {
			return "", false
		}
		if i+2 >= len(tokens) || sql[tokens[i+1].start:tokens[i+1].end] != "." || tokens[i+2].kind != word && tokens[i+2].kind != quotedName {
			return "", false
		}
		b.WriteString(sql[kept:t.start])
		kept = tokens[i+1].end
	}
	b.WriteString(sql[kept:])
	return b.String(), true
}

// unquoteName takes off the quotes of a name that has any; one with escapes
// keeps them.
func unquoteName(s string) string {
	if n := len(s); n >= 2 && (s[0] == '`' || s[0] == '"') && s[n-1] == s[0] {
		return s[1 : n-1]
	}
	return s
}

// Legible reports whether no name of the statement holds a line break or an
// escape: it shows as it is in what ClickHouse prints of the statement.
func Legible(sql string) bool {
	for _, t := range scan(sql) {
		if t.kind == quotedName && strings.ContainsAny(sql[t.start:t.end], "\\\n\r") {
			return false
		}
	}
	return true
}
