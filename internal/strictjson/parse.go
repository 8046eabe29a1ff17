package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// Document is a document that was read to a tree. It may have had faults: then
// the tree holds what could be read.
type Document struct {
	data  []byte
	lines lines
	root  *node // nil when nothing could be read
	// broken: a syntax error ended the reading, so values may be missing.
	broken bool
}

// Parse reads data to a tree and returns every fault of its form. The document
// keeps data; the caller must not change it.
func Parse(data []byte) (*Document, []Fault) {
	p := &parser{data: data, lines: newLines(data)}
	root := p.document()
	return &Document{data: data, lines: p.lines, root: root, broken: p.broken}, p.faults.list
}

// Whole reports whether the document was read to its end, so that what it does
// not hold was not written.
func (d *Document) Whole() bool { return d.root != nil && !d.broken }

// Line returns the line of the value at path, or of the closest value around it
// when the document does not hold that path; 0 when the document is empty.
func (d *Document) Line(path string) int {
	if d.root == nil {
		return 0
	}
	offset, _ := d.root.descend(path)
	return d.lines.at(offset)
}

// Has reports whether the document holds a value at path.
func (d *Document) Has(path string) bool {
	if d.root == nil {
		return false
	}
	_, all := d.root.descend(path)
	return all
}

// parser is a recursive descent over data. A syntax error ends it: what follows
// one cannot be trusted to mean anything.
type parser struct {
	data   []byte
	pos    int
	trail  trail // of the value that is read; as long as the nesting is deep
	lines  lines
	faults faults
	broken bool
}

func (p *parser) document() *node {
	if rest, ok := bytes.CutPrefix(p.data, []byte("\xef\xbb\xbf")); ok {
		p.fault(0, "the file begins with a byte order mark; save it as UTF-8 without one")
		p.pos = len(p.data) - len(rest)
	}
	p.space()
	if p.pos == len(p.data) {
		p.fault(p.pos, "the document is empty; {} is an empty object")
		return nil
	}
	root := p.value()
	p.space()
	if p.pos < len(p.data) && !p.broken {
		p.fault(p.pos, "there is data after the end of the document")
	}
	return root
}

func (p *parser) value() *node {
	n := &node{start: p.pos}
	switch p.peek() {
	case '{':
		n.kind = kindObject
		seen := map[string]bool{}
		p.members('}', func() { p.member(n, seen) })
	case '[':
		n.kind = kindArray
		p.members(']', func() {
			p.trail = append(p.trail, segment{kind: stepIndex, index: len(n.items)})
			n.items = append(n.items, p.value())
			p.trail = p.trail[:len(p.trail)-1]
		})
	case '"':
		n.kind, n.text = kindString, p.str()
	default:
		p.word(n)
	}
	n.end = p.pos
	return n
}

// members reads what stands between a pair of brackets.
func (p *parser) members(closing byte, member func()) {
	p.pos++
	if len(p.trail) >= MaxDepth {
		p.syntax(fmt.Sprintf("the document is nested deeper than %d levels", MaxDepth))
		return
	}
	for p.space(); p.peek() != closing; p.space() {
		member()
		p.space()
		if p.broken || p.peek() == closing {
			break
		}
		if !p.comma(closing) {
			return
		}
	}
	if !p.broken {
		p.pos++
	}
}

// comma reads what stands between two members. One comma too many or too few is a
// fault that leaves no doubt about what comes next.
func (p *parser) comma(closing byte) bool {
	if p.peek() == '"' {
		p.fault(p.pos, fmt.Sprintf("want a comma or %q", closing))
		return true
	}
	if p.peek() != ',' {
		p.syntax(fmt.Sprintf("want a comma or %q", closing))
		return false
	}
	p.pos++
	for p.space(); p.peek() == ','; p.space() {
		p.fault(p.pos, "there is a comma too many")
		p.pos++
	}
	if p.peek() == closing {
		p.fault(p.pos, "there is a comma before the closing bracket")
	}
	return true
}

func (p *parser) member(n *node, seen map[string]bool) {
	start := p.pos
	if p.peek() != '"' {
		p.syntax("want a key in double quotes")
		return
	}
	key := p.str()
	if p.space(); p.broken || p.peek() != ':' {
		p.syntax("want a colon after the key " + excerpt.Quoted(key))
		return
	}
	p.pos++
	p.space()
	p.trail = append(p.trail, segment{key: key})
	if seen[key] {
		p.fault(start, "the key is repeated")
	}
	seen[key] = true
	n.fields = append(n.fields, field{key: key, start: start, value: p.value()})
	p.trail = p.trail[:len(p.trail)-1]
}

// word reads what has neither brackets nor quotes.
func (p *parser) word(n *node) {
	for p.pos < len(p.data) && wordByte(p.data[p.pos]) {
		p.pos++
	}
	switch n.text = string(p.data[n.start:p.pos]); {
	case n.text == "null":
	case n.text == "true", n.text == "false":
		n.kind = kindBool
	case n.text != "" && strings.IndexByte("-0123456789", n.text[0]) >= 0 && json.Valid([]byte(n.text)):
		n.kind = kindNumber
	case n.text != "" && strings.IndexByte("-0123456789", n.text[0]) >= 0:
		p.pos = n.start
		p.syntax(excerpt.Quoted(n.text) + " is not a number")
	default:
		p.pos = n.start
		p.syntax("want a value")
	}
}

func wordByte(c byte) bool {
	lower := c | 0x20
	return lower >= 'a' && lower <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("+-._", c) >= 0
}

func (p *parser) str() string {
	start, plain := p.pos, true
	for p.pos++; p.pos < len(p.data); p.pos++ {
		switch c := p.data[p.pos]; {
		case c == '\\':
			plain = false
			p.pos++
		case c == '"':
			p.pos++
			if raw := p.data[start+1 : p.pos-1]; plain && utf8.Valid(raw) {
				return string(raw)
			}
			return p.unquote(start)
		case c < ' ':
			p.syntax("a string holds a raw control character; write it as an escape")
			return ""
		}
	}
	p.pos = start
	p.syntax("a string does not end")
	return ""
}

func (p *parser) unquote(start int) string {
	raw := p.data[start:p.pos]
	if !utf8.Valid(raw) {
		p.fault(start, "a string is not valid UTF-8")
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		p.pos = start
		p.syntax("a string holds an escape that JSON does not have")
	} else if halfOfAPair(raw) {
		p.fault(start, "a string holds half of a surrogate pair")
	}
	return s
}

// halfOfAPair reports whether a valid JSON string has a surrogate without its
// other half. Go reads one as U+FFFD, which is another text than was sent.
func halfOfAPair(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		if i++; raw[i] != 'u' {
			continue
		}
		unit := escapedUnit(raw[i:])
		if i += 4; !utf16.IsSurrogate(unit) {
			continue
		}
		rest := raw[i+1:]
		if !bytes.HasPrefix(rest, []byte(`\u`)) || utf16.DecodeRune(unit, escapedUnit(rest[1:])) == unicode.ReplacementChar {
			return true
		}
		i += 6
	}
	return false
}

// escapedUnit reads the four digits of an escape whose u comes first.
func escapedUnit(escape []byte) rune {
	unit, _ := strconv.ParseUint(string(escape[1:5]), 16, 16)
	return rune(unit)
}

func (p *parser) space() {
	for p.pos < len(p.data) && bytes.IndexByte([]byte(" \t\r\n"), p.data[p.pos]) >= 0 {
		p.pos++
	}
}

// peek returns the next byte, 0 at the end.
func (p *parser) peek() byte {
	if p.pos < len(p.data) {
		return p.data[p.pos]
	}
	return 0
}

// syntax reports a fault that ends the reading.
func (p *parser) syntax(message string) {
	if p.broken {
		return
	}
	p.broken = true
	if p.pos >= len(p.data) {
		message = "the document ends too early: " + message
	}
	p.fault(p.pos, message)
}

func (p *parser) fault(offset int, message string) {
	p.faults.add(Fault{Path: p.trail.path(), Line: p.lines.at(offset), Message: message})
}
