package record

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

// Shape is what the values of one field have in common: which column type would
// take them all. The zero value has seen none. It is for one goroutine.
type Shape struct {
	seen shapes
	// digits are those of the longest integer, fraction those of a second.
	digits, fraction int
	// elem is that of the elements of arrays.
	elem *Shape
}

// shapes is a set of kinds of values.
type shapes uint16

const (
	shapeNull shapes = 1 << iota
	shapeBool
	shapeInt      // fits Int64
	shapeUInt     // fits UInt64 alone
	shapeBig      // longer
	shapeNegative // of integers
	shapeFloat
	shapeTime
	shapeText
	shapeArray
	shapeObject
	shapeDeep // an array too deep to look into
)

const (
	// maxShapeDepth and maxShapeElements bound what is looked at of an array.
	maxShapeDepth    = 3
	maxShapeElements = 64
	// widestInt is how many digits every Int256 has room for.
	widestInt = 76
)

// Observe adds a value, which is valid JSON without white space around it.
func (s *Shape) Observe(value []byte) { s.observe(value, 0) }

func (s *Shape) observe(value []byte, depth int) {
	switch c := value[0]; c {
	case 'n':
		s.seen |= shapeNull
	case 't', 'f':
		s.seen |= shapeBool
	case '{':
		s.seen |= shapeObject
	case '[':
		s.array(value, depth)
	case '"':
		s.text(unquote(value))
	default:
		s.number(value)
	}
}

func (s *Shape) array(value []byte, depth int) {
	s.seen |= shapeArray
	if depth == maxShapeDepth {
		s.seen |= shapeDeep
		return
	}
	if s.elem == nil {
		s.elem = &Shape{}
	}
	walk := elementsOf(value)
	for range maxShapeElements {
		elem, ok := walk.next()
		if !ok {
			return
		}
		s.elem.observe(elem, depth+1)
	}
}

// text tells times from other texts.
func (s *Shape) text(text []byte) {
	if len(text) < len("2006-01-02T15:04") || text[4] != '-' {
		s.seen |= shapeText
		return
	}
	t, bad := parseDateTime(text, time.UTC)
	digits := 3
	switch {
	case t.nanos%1e6 == 0:
	case t.nanos%1e3 == 0:
		digits = 6
	default:
		digits = 9
	}
	codec := newDateTime64("", digits, time.UTC, false)
	if _, err := codec.AppendText(nil, text); bad != timeIsOne || err != nil {
		s.seen |= shapeText
		return
	}
	s.seen |= shapeTime
	s.fraction = max(s.fraction, digits)
}

func (s *Shape) number(value []byte) {
	if bytes.ContainsAny(value, ".eE") {
		if _, err := strconv.ParseFloat(string(value), 64); err != nil {
			s.seen |= shapeText
			return
		}
		s.seen |= shapeFloat
		return
	}
	digits := bytes.TrimPrefix(value, []byte("-"))
	s.digits = max(s.digits, len(digits))
	if len(digits) < len(value) {
		s.seen |= shapeNegative
	}
	if _, err := strconv.ParseInt(string(value), 10, 64); err == nil {
		s.seen |= shapeInt
	} else if _, err := strconv.ParseUint(string(value), 10, 64); err == nil {
		s.seen |= shapeUInt
	} else {
		s.seen |= shapeBig
	}
}

// Merge adds what another Shape has seen.
func (s *Shape) Merge(other *Shape) {
	s.seen |= other.seen
	s.digits, s.fraction = max(s.digits, other.digits), max(s.fraction, other.fraction)
	if other.elem == nil {
		return
	}
	if s.elem == nil {
		s.elem = &Shape{}
	}
	s.elem.Merge(other.elem)
}

// Type is the type of a column that takes what was seen: Bool, an integer type,
// Float64, DateTime64, String, Array, JSON, or Dynamic for what fits none of
// them; Nullable where NULL was among it and the type can be.
func (s *Shape) Type() string {
	text, composite := s.plain()
	if s.seen&shapeNull != 0 && !composite {
		return "Nullable(" + text + ")"
	}
	return text
}

// Default is the literal that stands for a record without the field in a column
// of Type, "" where that is NULL.
func (s *Shape) Default() string {
	text, _ := s.plain()
	switch {
	case text == "Dynamic", s.seen&shapeNull != 0 && text != "JSON" && s.seen&shapeArray == 0:
		return ""
	case text == "JSON":
		return "'{}'"
	case s.seen&shapeArray != 0:
		return "[]"
	case text == "Bool":
		return "false"
	case text == "String":
		return "''"
	}
	return "0"
}

// plain is Type without NULL; a composite one cannot be Nullable.
func (s *Shape) plain() (text string, composite bool) {
	const integers = shapeInt | shapeUInt | shapeBig | shapeNegative
	switch seen := s.seen &^ shapeNull; {
	case seen == 0:
		return "String", false
	case seen&shapeDeep != 0, seen&(shapeArray|shapeObject) != 0 && seen != shapeArray && seen != shapeObject:
		return "Dynamic", true
	case seen == shapeObject:
		return "JSON", true
	case seen == shapeArray:
		return "Array(" + s.elem.element() + ")", true
	case seen == shapeBool:
		return "Bool", false
	case seen == shapeTime:
		return fmt.Sprintf("DateTime64(%d, 'UTC')", s.fraction), false
	case seen&^integers == 0 && s.digits <= widestInt:
		return s.integer(), false
	case seen&^(integers|shapeFloat) == 0 && seen&shapeBig == 0:
		return "Float64", false
	}
	return "String", false
}

func (s *Shape) integer() string {
	switch {
	case s.seen&shapeBig != 0:
		return "Int256"
	case s.seen&shapeUInt == 0:
		return "Int64"
	case s.seen&shapeNegative == 0:
		return "UInt64"
	}
	return "Int128"
}

// element is the type of an array's elements.
func (s *Shape) element() string {
	if _, composite := s.plain(); composite && s.seen&shapeNull != 0 {
		return "Dynamic"
	}
	return s.Type()
}
