package pipes

import "strings"

// tokenKind says what a token of a statement is to ClickHouse's own lexer.
type tokenKind uint8

const (
	space       tokenKind = iota
	comment               // -- …, # …, /* … */
	text                  // '…', $tag$…$tag$, ‘…’
	quotedName            // `…`, "…", “…”
	word                  // a name or keyword
	number                // digits and what sticks to them
	placeholder           // {{…}}
	symbol                // any other character
)

// token is a word or sign of a statement: sql[start:end].
type token struct {
	kind       tokenKind
	start, end int
	open       bool // it is not closed before the statement ends
}

// scan cuts a statement into tokens that cover all of it.
func scan(sql string) []token {
	var tokens []token
	for at := 0; at < len(sql); {
		t := next(sql, at)
		tokens = append(tokens, t)
		at = t.end
	}
	return tokens
}

func next(sql string, at int) token {
	rest := sql[at:]
	switch c := rest[0]; {
	case c == ' ' || c >= '\t' && c <= '\r':
		return run(space, sql, at, func(b byte) bool { return b == ' ' || b >= '\t' && b <= '\r' })
	case strings.HasPrefix(rest, "--"), strings.HasPrefix(rest, "#"):
		return until(comment, at, rest, 1, "\n", false)
	case strings.HasPrefix(rest, "/*"):
		return blockComment(at, rest)
	case c == '\'':
		return quoted(text, at, rest)
	case c == '`', c == '"':
		return quoted(quotedName, at, rest)
	case strings.HasPrefix(rest, "‘"):
		return until(text, at, rest, len("‘"), "’", true)
	case strings.HasPrefix(rest, "“"):
		return until(quotedName, at, rest, len("“"), "”", true)
	case strings.HasPrefix(rest, "{{"):
		return until(placeholder, at, rest, 2, "}}", true)
	case c == '$':
		if t, ok := heredoc(at, rest); ok {
			return t
		}
		return run(word, sql, at, nameByte)
	case c >= '0' && c <= '9':
		return run(number, sql, at, nameByte)
	case nameByte(c):
		return run(word, sql, at, nameByte)
	}
	return token{kind: symbol, start: at, end: at + 1}
}

// nameByte reports whether b may be part of a name. Bytes above ASCII may, to
// be safe: ClickHouse refuses them outside quotes.
func nameByte(b byte) bool {
	return b == '_' || b == '$' || b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= 0x80
}

func run(kind tokenKind, sql string, at int, in func(byte) bool) token {
	end := at + 1
	for end < len(sql) && in(sql[end]) {
		end++
	}
	return token{kind: kind, start: at, end: end}
}

// until is a token that ends with closing, or with the statement.
func until(kind tokenKind, at int, rest string, skip int, closing string, must bool) token {
	if n := strings.Index(rest[skip:], closing); n >= 0 {
		return token{kind: kind, start: at, end: at + skip + n + len(closing)}
	}
	return token{kind: kind, start: at, end: at + len(rest), open: must}
}

// blockComment may hold others.
func blockComment(at int, rest string) token {
	depth := 0
	for i := 0; i+1 < len(rest); i++ {
		switch rest[i : i+2] {
		case "/*":
			depth++
			i++
		case "*/":
			depth--
			i++
			if depth == 0 {
				return token{kind: comment, start: at, end: at + i + 1}
			}
		}
	}
	return token{kind: comment, start: at, end: at + len(rest), open: true}
}

// quoted ends at its quote, which is written twice or after a backslash to
// stand for itself.
func quoted(kind tokenKind, at int, rest string) token {
	q := rest[0]
	for i := 1; i < len(rest); i++ {
		switch {
		case rest[i] == '\\':
			i++
		case rest[i] == q && i+1 < len(rest) && rest[i+1] == q:
			i++
		case rest[i] == q:
			return token{kind: kind, start: at, end: at + i + 1}
		}
	}
	return token{kind: kind, start: at, end: at + len(rest), open: true}
}

// heredoc is $tag$ … $tag$.
func heredoc(at int, rest string) (token, bool) {
	n := strings.IndexByte(rest[1:], '$')
	if n < 0 || strings.ContainsFunc(rest[1:1+n], func(r rune) bool { return r >= 0x80 || !nameByte(byte(r)) }) {
		return token{}, false
	}
	tag := rest[:n+2]
	end := strings.Index(rest[len(tag):], tag)
	if end < 0 {
		return token{}, false
	}
	return token{kind: text, start: at, end: at + len(tag) + end + len(tag)}, true
}
