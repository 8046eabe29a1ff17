// Package jetstream is what brokers on NATS share: how chunks and dead letters
// travel, so that a message means the same wherever it is stored, publishing
// with answers, reading by sequence, and a store of dead letters.
package jetstream

import (
	"strings"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

const upperHex = "0123456789ABCDEF"

// emptyTable is the token of a table without a name, as a subject cannot
// have an empty token. No escaped name is a lone percent sign.
const emptyTable = "%"

// Subject is what topic t is called below prefix, which ends with a dot.
func Subject(prefix string, t mq.Topic) string {
	return prefix + string(t.Tenant) + "." + escapeTable(t.Table)
}

// escapeTable makes any table name one subject token of A–Z a–z 0–9 _ - and
// %XX. Different names have different tokens.
func escapeTable(name string) string {
	if name == "" {
		return emptyTable
	}
	escaped := 0
	for i := range len(name) {
		if !plain(name[i]) {
			escaped++
		}
	}
	if escaped == 0 {
		return name
	}
	out := make([]byte, 0, len(name)+2*escaped)
	for i := range len(name) {
		out = appendEscaped(out, name[i], plain(name[i]))
	}
	return string(out)
}

// unescapeTable reads a token of escapeTable; ok is false for any other.
func unescapeTable(token string) (name string, ok bool) {
	if token == emptyTable {
		return "", true
	}
	name, ok = unescape(token)
	return name, ok && escapeTable(name) == token
}

// ParseTopic reads tenant and table from the last two tokens of a subject.
func ParseTopic(subject string) (mq.Topic, bool) {
	rest, token, ok := cutLast(subject)
	if !ok {
		return mq.Topic{}, false
	}
	_, id, ok := cutLast(rest)
	if !ok {
		return mq.Topic{}, false
	}
	t, err := tenant.Parse(id)
	if err != nil {
		return mq.Topic{}, false
	}
	name, ok := unescapeTable(token)
	return mq.Topic{Tenant: t, Table: name}, ok
}

func cutLast(subject string) (before, last string, ok bool) {
	i := strings.LastIndexByte(subject, '.')
	if i < 0 {
		return "", "", false
	}
	return subject[:i], subject[i+1:], true
}

func plain(c byte) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
		return true
	}
	return false
}

func appendEscaped(dst []byte, c byte, keep bool) []byte {
	if keep {
		return append(dst, c)
	}
	return append(dst, '%', upperHex[c>>4], upperHex[c&15])
}

func unescape(s string) (string, bool) {
	if strings.IndexByte(s, '%') < 0 {
		return s, s != ""
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			out = append(out, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		hi, lo := unhex(s[i+1]), unhex(s[i+2])
		if hi < 0 || lo < 0 {
			return "", false
		}
		out = append(out, byte(hi<<4|lo))
		i += 2
	}
	return string(out), true
}

func unhex(c byte) int {
	return strings.IndexByte(upperHex, c)
}
