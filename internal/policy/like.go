package policy

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// maxPattern bounds a pattern, in bytes: matching takes time in proportion.
const maxPattern = 1 << 10

// like is a compiled LIKE pattern: % is any text, _ any one character, and a
// backslash makes either of them, and itself, mean itself.
type like []likeToken

type likeToken struct {
	kind likeKind
	char byte
}

type likeKind uint8

const (
	likeByte likeKind = iota
	likeOne
	likeAny
)

func parseLike(pattern string) (like, error) {
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("a pattern is at most %d bytes long", maxPattern)
	}
	if !utf8.ValidString(pattern) {
		return nil, errors.New("a pattern must be valid UTF-8")
	}
	var l like
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '%':
			if len(l) == 0 || l[len(l)-1].kind != likeAny {
				l = append(l, likeToken{kind: likeAny})
			}
		case '_':
			l = append(l, likeToken{kind: likeOne})
		case '\\':
			if i++; i == len(pattern) || !strings.ContainsRune(`%_\`, rune(pattern[i])) {
				return nil, fmt.Errorf(`in a pattern %%, _ or \ must follow a \: %q`, excerpt.Of(pattern))
			}
			l = append(l, likeToken{char: pattern[i]})
		default:
			l = append(l, likeToken{char: c})
		}
	}
	return l, nil
}

// EndsInEscape reports whether the last character of a pattern is a backslash
// that has nothing to escape. ClickHouse refuses such a pattern, but only once
// it meets a value.
func EndsInEscape(pattern string) bool {
	return (len(pattern)-len(strings.TrimRight(pattern, `\`)))%2 == 1
}

// match reports whether the whole text fits the pattern. Text that is not
// UTF-8 fits none.
func (l like) match(text []byte) bool {
	if !utf8.Valid(text) {
		return false
	}
	at, back, backText := 0, -1, 0
	for i := 0; i < len(text); {
		switch width := l.step(at, text[i:]); {
		case at < len(l) && l[at].kind == likeAny:
			back, backText = at, i
			at++
		case width > 0:
			at++
			i += width
		case back >= 0:
			// The last % takes one character more.
			_, width := utf8.DecodeRune(text[backText:])
			backText += width
			at, i = back+1, backText
		default:
			return false
		}
	}
	for at < len(l) && l[at].kind == likeAny {
		at++
	}
	return at == len(l)
}

// step returns how many bytes of text the token at the index takes, 0 when it
// does not fit.
func (l like) step(at int, text []byte) int {
	switch {
	case at >= len(l) || l[at].kind == likeAny:
		return 0
	case l[at].kind == likeOne:
		_, width := utf8.DecodeRune(text)
		return width
	case l[at].char == text[0]:
		return 1
	}
	return 0
}

// EscapeLike makes a text mean itself inside a pattern.
func EscapeLike(text string) string {
	return strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(text)
}

func plainText(text string) string { return text }
