package query

import (
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
)

// A document that asks for no pages is asked of ClickHouse as it stands. When its
// answer is cut, a cursor may be made of what was answered anyway.

// Continues reports whether an answer that is cut may have a cursor although its
// document asked for no pages.
func (s *Statement) Continues() bool {
	b := s.builder
	if b == nil || b.doc.Cursor != nil || b.opts.Cursors == nil || !b.opts.Ahead || !b.opts.Format.lines() {
		return false
	}
	d := b.doc
	return d.Limit.Set && d.Limit.N > 0 && d.Offset.N == 0 && len(d.OrderBy) > 0 &&
		!d.Totals && d.Compare == "" && b.fill == nil
}

// Cursor is that of the page behind the answer's last row, where next is the row
// behind it; both are objects as they are answered. It is "" when the document has no
// pages, when the rows do not show all that they are ordered by, and when the two are
// equal in it: which of such rows were answered is not known to another page.
func (s *Statement) Cursor(last, next []byte) string {
	b := s.builder
	doc := *b.doc
	doc.Cursor = new(string)
	pages := newBuilder(&doc, b.cols.table, b.cols.grant, b.opts)
	if _, err := pages.build(); err != nil {
		return "" // it has none
	}
	key, ok := pages.shownKey(last)
	behind, same := pages.shownKey(next)
	if !ok || !same || key == behind {
		return ""
	}
	return b.opts.Cursors.seal(pages.binding, position{key: key, rough: true, now: b.opts.Now})
}

// shownKey is what a row is ordered by, read from the row as it is answered; false
// when that does not show it exactly.
func (b *builder) shownKey(row []byte) (key string, ok bool) {
	var values map[string]json.RawMessage
	if json.Unmarshal(row, &values) != nil {
		return "", false
	}
	keys := b.paged.keys[:b.paged.ordered]
	var parts []string
	seen := map[string]bool{}
	for _, o := range b.doc.OrderBy {
		if seen[o.Column] {
			continue
		}
		seen[o.Column] = true
		value, shown := values[o.Column]
		if !shown || len(parts) == len(keys) {
			return "", false
		}
		part, exact := keys[len(parts)].shownPart(value)
		if !exact {
			return "", false
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, partSeparator), len(parts) == len(keys)
}

// shownPart is the part of a key that a value is, as it is answered.
func (k sortKey) shownPart(value json.RawMessage) (part string, exact bool) {
	plain, quoted := text(value)
	if !quoted {
		plain = string(value)
	}
	switch k.typ.Kind {
	case coltype.Int, coltype.UInt, coltype.Decimal, coltype.Bool, coltype.UUID, coltype.IPv4, coltype.IPv6, coltype.Date, coltype.Date32:
	case coltype.String, coltype.Enum:
		// What is not UTF-8 is answered as U+FFFD.
		if quoted && (len(plain) > maxKeyPart || strings.ContainsRune(plain, '\uFFFD')) {
			return "", false
		}
	case coltype.DateTime, coltype.DateTime64:
		plain = clockText(plain)
	default: // NaN is answered as null, and zero has two signs
		return "", false
	}
	if !quoted && plain == "null" {
		return partNull, k.nullable
	}
	return strings.ToUpper(hex.EncodeToString([]byte(plain))), true
}
