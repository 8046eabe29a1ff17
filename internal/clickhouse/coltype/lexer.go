package coltype

import (
	"fmt"
	"strings"
)

// Error says where a type's text stops making sense.
type Error struct {
	Text    string
	Offset  int
	Message string
}

// Error returns the message with the text and the offset.
func (e *Error) Error() string {
	return fmt.Sprintf("column type %.200q: %s at offset %d", e.Text, e.Message, e.Offset)
}

// scanner walks a type's text. Spaces between tokens mean nothing.
type scanner struct {
	text string
	at   int
}

func (s *scanner) fail(format string, args ...any) error {
	return &Error{Text: s.text, Offset: s.at, Message: fmt.Sprintf(format, args...)}
}

func (s *scanner) space() {
	for s.at < len(s.text) && strings.IndexByte(" \t\r\n", s.text[s.at]) >= 0 {
		s.at++
	}
}

// peek returns the next token's first byte, 0 at the end.
func (s *scanner) peek() byte {
	s.space()
	if s.at == len(s.text) {
		return 0
	}
	return s.text[s.at]
}

// accept takes the byte c if it is next.
func (s *scanner) accept(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.at++
	return true
}

func (s *scanner) expect(c byte) error {
	if s.accept(c) {
		return nil
	}
	return s.fail("expected %q", c)
}

// word takes a bare word: letters, digits, underscores.
func (s *scanner) word() string {
	s.space()
	start := s.at
	for s.at < len(s.text) && isWord(s.text[s.at]) {
		s.at++
	}
	return s.text[start:s.at]
}

func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// integer takes a decimal integer, with a minus sign when it may be negative.
func (s *scanner) integer(low, high int) (int, error) {
	s.space()
	start := s.at
	negative := s.at < len(s.text) && s.text[s.at] == '-'
	if negative {
		s.at++
	}
	n, digits := 0, 0
	for ; s.at < len(s.text) && s.text[s.at] >= '0' && s.text[s.at] <= '9'; s.at++ {
		n = min(n*10+int(s.text[s.at]-'0'), 1<<40)
		digits++
	}
	if negative {
		n = -n
	}
	if digits == 0 || n < low || n > high {
		s.at = start
		return 0, s.fail("expected a whole number between %d and %d", low, high)
	}
	return n, nil
}

// quoted takes a string or identifier between two quote bytes, with ClickHouse's
// backslash escapes and doubled quotes.
func (s *scanner) quoted(quote byte) (string, error) {
	if err := s.expect(quote); err != nil {
		return "", err
	}
	var out strings.Builder
	for s.at < len(s.text) {
		c := s.text[s.at]
		s.at++
		switch {
		case c == quote && s.at < len(s.text) && s.text[s.at] == quote:
			out.WriteByte(quote)
			s.at++
		case c == quote:
			return out.String(), nil
		case c == '\\':
			if err := s.escape(&out); err != nil {
				return "", err
			}
		default:
			out.WriteByte(c)
		}
	}
	return "", s.fail("missing closing %q", quote)
}

// escape takes what follows a backslash. An unknown escape keeps its backslash,
// as ClickHouse does.
func (s *scanner) escape(out *strings.Builder) error {
	if s.at == len(s.text) {
		return s.fail("unfinished escape")
	}
	c := s.text[s.at]
	s.at++
	if c == 'x' {
		return s.hexEscape(out)
	}
	if i := strings.IndexByte(`btnrfave0`, c); i >= 0 {
		out.WriteByte("\b\t\n\r\f\a\v\x1b\x00"[i])
		return nil
	}
	if strings.IndexByte("\\'\"`/=", c) < 0 {
		out.WriteByte('\\')
	}
	out.WriteByte(c)
	return nil
}

func (s *scanner) hexEscape(out *strings.Builder) error {
	value := 0
	for range 2 {
		if s.at == len(s.text) {
			return s.fail("unfinished escape")
		}
		digit := strings.IndexByte("0123456789abcdef", s.text[s.at]|0x20)
		if digit < 0 {
			return s.fail("expected a hexadecimal digit")
		}
		value = value<<4 | digit
		s.at++
	}
	out.WriteByte(byte(value))
	return nil
}

// balanced takes the text up to, but without, the parenthesis that closes the
// one just taken, minding quotes.
func (s *scanner) balanced() (string, error) {
	start, depth := s.at, 0
	for s.at < len(s.text) {
		switch c := s.text[s.at]; c {
		case '\'', '"', '`':
			if _, err := s.quoted(c); err != nil {
				return "", err
			}
			continue
		case '(':
			depth++
		case ')':
			if depth == 0 {
				return strings.TrimSpace(s.text[start:s.at]), nil
			}
			depth--
		}
		s.at++
	}
	return "", s.fail("missing closing ')'")
}
