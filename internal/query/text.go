package query

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/excerpt"
	"github.com/wavehouse/wavehouse/internal/policy"
)

// maxFolded bounds a pattern of ilike, in bytes: ClickHouse compiles it, and
// refuses what becomes too large only when it meets a value.
const maxFolded = 1 << 10

// textOf returns a value that must be a text, for a column that must hold some.
func textOf(clause, what string, col column, value json.RawMessage) (string, *Error) {
	if err := present(clause, col, value); err != nil {
		return "", err
	}
	if !textual(col) {
		return "", invalidColumn(col.name, "%s: this op compares text, and the column %q is %s", clause, excerpt.Of(col.name), col.plain)
	}
	s, ok := text(value)
	if !ok {
		return "", invalidColumn(col.name, "%s: the %s must be a string", clause, what)
	}
	return s, nil
}

func textual(col column) bool {
	return col.typ.Kind == coltype.String || col.typ.Kind == coltype.FixedString
}

// pattern returns the value of like and ilike.
func pattern(clause string, col column, value json.RawMessage) (string, *Error) {
	p, err := textOf(clause, "pattern", col, value)
	if err == nil && policy.EndsInEscape(p) {
		err = invalidColumn(col.name, `%s: the pattern ends in a \ that escapes nothing: write \\ for one that means itself`, clause)
	}
	return p, err
}

// ilike compiles a pattern that takes a letter for any other of its case
// folding. ClickHouse's own ILIKE does not for letters whose cases differ in
// length, and for those of which there are three.
func (b *builder) ilike(clause string, col column, value json.RawMessage) (string, *Error) {
	p, err := pattern(clause, col, value)
	if err != nil {
		return "", err
	}
	if len(p) > maxFolded {
		return "", invalidColumn(col.name, "%s: the pattern is longer than %d bytes", clause, maxFolded)
	}
	return b.call(clause, "match", col, "String", expression(p))
}

// expression writes a pattern as a regular expression. What matches anything at
// an end is left out of it.
func expression(pattern string) string {
	var e strings.Builder
	e.WriteString("(?is)")
	if !strings.HasPrefix(pattern, "%") {
		e.WriteByte('^')
	}
	rest, open := strings.TrimLeft(pattern, "%"), false
	for i := 0; i < len(rest); i++ {
		switch c := rest[i]; {
		case c == '%' && strings.Trim(rest[i:], "%") == "":
			open = true
			i = len(rest)
		case c == '%':
			e.WriteString(".*")
		case c == '_':
			e.WriteByte('.')
		case c == '\\' && i+1 < len(rest) && strings.IndexByte(`%_\`, rest[i+1]) >= 0:
			i++
			e.WriteString(regexp.QuoteMeta(rest[i : i+1]))
		default:
			e.WriteString(regexp.QuoteMeta(rest[i : i+1]))
		}
	}
	if !open && (rest != "" || pattern == "") {
		e.WriteByte('$')
	}
	return e.String()
}

func (b *builder) startsWith(clause string, col column, value json.RawMessage) (string, *Error) {
	s, err := textOf(clause, "beginning", col, value)
	if err != nil {
		return "", err
	}
	return b.call(clause, "startsWith", col, "String", s)
}

func (b *builder) endsWith(clause string, col column, value json.RawMessage) (string, *Error) {
	s, err := textOf(clause, "end", col, value)
	if err != nil {
		return "", err
	}
	return b.call(clause, "endsWith", col, "String", s)
}

// substring compiles a part of a text as the pattern for which there are
// indexes; it cannot fail.
func (b *builder) substring(clause string, col column, value json.RawMessage) (string, *Error) {
	s, err := textOf(clause, "part", col, value)
	if err != nil {
		return "", err
	}
	sql, err := b.bind(clause, col, " LIKE ", "String", "%"+policy.EscapeLike(s)+"%")
	return "(" + sql + ")", err
}

// call compiles a function of the column and one value.
func (b *builder) call(clause, function string, col column, typ, text string) (string, *Error) {
	name, err := b.values.bind(clause, text)
	if err != nil {
		return "", err
	}
	return function + "(" + col.sql + ", {" + name + ":" + typ + "})", nil
}
