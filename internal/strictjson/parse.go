package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
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

// Line returns the line of the value at path, or of the closest value around it
// when the document does not hold that path; 0 when the document is empty.
func (d *Document) Line(path string) int {
	if d.root == nil {
		return 0
	}
	_, offset, _ := d.root.descend(path)
	return d.lines.at(offset)
}

// Has reports whether the document holds a value at path.
func (d *Document) Has(path string) bool {
	if d.root == nil {
		return false
	}
	_, _, all := d.root.descend(path)
	return all
}

// parser is a recursive descent over data. A syntax error ends it: what follows
// one cannot be trusted to mean anything.
type parser struct {
	data   []byte
	pos    int
	depth  int
	path   []segment
	lines  lines
	faults faults
	broken bool
}

// segment is one step of a path: a key, or an index where there is none. It is
// spelled when there is a fault to show.
type segment struct {
	key   string
	index int // -1 for a key
}

func (s segment) String() string {
	if s.index < 0 {
		return Join("", s.key)
	}
	return Index("", s.index)
}

func (p *parser) document() *node {
	if rest, ok := bytes.CutPrefix(p.data, []byte("\xef\xbb\xbf")); ok {
		p.faultAt(0, "the file begins with a byte order mark; save it as UTF-8 without one")
		p.pos = len(p.data) - len(rest)
	}
	p.space()
	if p.pos == len(p.data) {
		p.faultAt(p.pos, "the document is empty; {} is an empty object")
		return nil
	}
	root := p.value()
	if p.broken {
		return root
	}
	p.space()
	if p.pos < len(p.data) {
		p.faultAt(p.pos, "there is data after the end of the document")
	}
	return root
}

func (p *parser) value() *node {
	start := p.pos
	n := &node{start: start, end: start}
	switch c := p.peek(); {
	case c == '{':
		p.object(n)
	case c == '[':
		p.array(n)
	case c == '"':
		n.kind = kindString
		n.text = p.str()
	case c == '-' || c >= '0' && c <= '9':
		n.kind = kindNumber
		n.text = p.number()
	default:
		p.word(n)
	}
	n.end = p.pos
	return n
}

func (p *parser) object(n *node) {
	n.kind = kindObject
	if !p.open() {
		return
	}
	seen := map[string]bool{}
	for p.space(); p.peek() != '}'; {
		p.member(n, seen)
		if p.broken || !p.separator('}') {
			return
		}
	}
	p.close()
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
	p.path = append(p.path, segment{key: key, index: -1})
	if seen[key] {
		p.faultAt(start, "the key is repeated")
	}
	seen[key] = true
	n.fields = append(n.fields, field{key: key, start: start, value: p.value()})
	p.path = p.path[:len(p.path)-1]
}

func (p *parser) array(n *node) {
	n.kind = kindArray
	if !p.open() {
		return
	}
	for p.space(); p.peek() != ']'; {
		p.path = append(p.path, segment{index: len(n.items)})
		n.items = append(n.items, p.value())
		p.path = p.path[:len(p.path)-1]
		if p.broken || !p.separator(']') {
			return
		}
	}
	p.close()
}

// separator takes a comma and what is after it, or stands before the closing
// bracket.
func (p *parser) separator(closing byte) bool {
	p.space()
	if p.peek() == closing {
		return true
	}
	if p.peek() != ',' {
		p.syntax(fmt.Sprintf("want a comma or %q", closing))
		return false
	}
	p.pos++
	p.space()
	if p.peek() == closing {
		p.syntax("there is a comma before the closing bracket")
		return false
	}
	return true
}

func (p *parser) open() bool {
	p.pos++
	if p.depth++; p.depth > MaxDepth {
		p.syntax(fmt.Sprintf("the document is nested deeper than %d levels", MaxDepth))
		return false
	}
	return true
}

func (p *parser) close() {
	p.pos++
	p.depth--
}

func (p *parser) word(n *node) {
	switch {
	case p.take("null"):
		n.kind = kindNull
	case p.take("true"):
		n.kind, n.truth = kindBool, true
	case p.take("false"):
		n.kind = kindBool
	default:
		p.syntax("want a value")
	}
}

func (p *parser) take(word string) bool {
	if !bytes.HasPrefix(p.data[p.pos:], []byte(word)) || wordByte(p.data, p.pos+len(word)) {
		return false
	}
	p.pos += len(word)
	return true
}

func wordByte(data []byte, at int) bool {
	if at >= len(data) {
		return false
	}
	c := data[at] | 0x20
	return c >= 'a' && c <= 'z' || data[at] == '_' || data[at] >= '0' && data[at] <= '9'
}

func (p *parser) number() string {
	start := p.pos
	for p.pos < len(p.data) && (wordByte(p.data, p.pos) || bytes.IndexByte([]byte("+-."), p.data[p.pos]) >= 0) {
		p.pos++
	}
	text := p.data[start:p.pos]
	if !json.Valid(text) {
		p.pos = start
		p.syntax(excerpt.Quoted(string(text)) + " is not a number")
		return ""
	}
	return string(text)
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
		p.faultAt(start, "a string is not valid UTF-8")
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		p.pos = start
		p.syntax("a string holds an escape that JSON does not have")
	}
	return s
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
	p.faultAt(p.pos, message)
}

func (p *parser) faultAt(offset int, message string) {
	path := ""
	for _, s := range p.path {
		text := s.String()
		if path != "" && text[0] != '[' {
			path += "."
		}
		path += text
	}
	p.faults.add(Fault{Path: path, Line: p.lines.at(offset), Message: message})
}
