package clickhouse

import "strings"

// QuoteIdent quotes a name for use as an identifier in a statement, whatever
// characters it holds.
func QuoteIdent(name string) string { return quote(name, '`') }

// QuoteIdents quotes names as a list of identifiers.
func QuoteIdents(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = QuoteIdent(name)
	}
	return strings.Join(quoted, ", ")
}

// QuoteString quotes s as a string literal.
func QuoteString(s string) string { return quote(s, '\'') }

// quote escapes the quote itself and the backslash, which ClickHouse reads as
// an escape inside every kind of quotes, and a zero byte, which ends a
// statement in some of its parsers.
func quote(s string, q byte) string {
	var b strings.Builder
	b.Grow(len(s) + 2)
	b.WriteByte(q)
	for i := range len(s) {
		switch c := s[i]; c {
		case q, '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case 0:
			b.WriteString(`\0`)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte(q)
	return b.String()
}

// EscapeParam escapes a plain text for use as the value of a scalar query
// parameter ({name:String} and its like): ClickHouse reads such a value as a
// field of tab-separated text. Array, Map and Tuple parameters are literals of
// their own and are not escaped again.
func EscapeParam(s string) string { return paramEscaper.Replace(s) }

var paramEscaper = strings.NewReplacer(`\`, `\\`, "\t", `\t`, "\n", `\n`, "\r", `\r`, "\x00", `\0`, "\b", `\b`, "\f", `\f`)
