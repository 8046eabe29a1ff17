package record

import (
	"fmt"
	"strings"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// nested is a Nested column as ClickHouse stores it unless flatten_nested is 0:
// a column of arrays for each member, of one length in each row. All array
// columns whose names have one part before the first dot are one Nested.
type nested struct {
	name    string
	columns []int
	// members are the parts behind the dot; absent is the JSON that a member
	// stands for which an object leaves out, nil for one that may not be, and
	// zero that of its type's zero, nil where that is not known here.
	members      []string
	absent, zero [][]byte
}

// addNested makes the column a member of its Nested, if it is one.
func (t *Table) addNested(i int) {
	parsed, err := coltype.Parse(t.columns[i].Type)
	if err != nil || t.columns[i].computed() {
		return
	}
	name, member, ok := strings.Cut(t.columns[i].Name, ".")
	for parsed.Kind == coltype.SimpleAggregateFunction || parsed.Kind == coltype.Geo {
		parsed = parsed.Elem()
	}
	if !ok || name == "" || member == "" || parsed.Kind != coltype.Array && parsed.Kind != coltype.Nested {
		return
	}
	n := t.nested[name]
	if n == nil {
		if t.nested == nil {
			t.nested = make(map[string]*nested)
		}
		n = &nested{name: name}
		t.nested[name] = n
	}
	absent, zero := leftOut(parsed)
	n.columns, n.members = append(n.columns, i), append(n.members, member)
	n.absent, n.zero = append(n.absent, absent), append(n.zero, zero)
	t.fields[i].nested = n
}

// leftOut is what an element of a Nested's array is where an object has none:
// NULL, or nothing.
func leftOut(array coltype.Type) (absent, zero []byte) {
	if array.Kind == coltype.Nested {
		return nil, nil
	}
	elem := array.Elem()
	switch elem.Plain().Kind {
	case coltype.Array, coltype.Nested:
		return []byte("[]"), nil
	case coltype.Map:
		return []byte("{}"), nil
	case coltype.String, coltype.FixedString:
		zero = []byte(`""`)
	case coltype.Int, coltype.UInt, coltype.Float, coltype.BFloat16, coltype.Decimal, coltype.Interval:
		zero = []byte("0")
	case coltype.Bool:
		zero = []byte("false")
	}
	if elem.AcceptsNull() {
		absent = []byte("null")
	}
	return absent, zero
}

// anyOf reports whether a row carries a column of the Nested.
func (n *nested) anyOf(carried []byte) bool {
	for _, i := range n.columns {
		if hasBit(carried, i) {
			return true
		}
	}
	return false
}

// indexOf finds a member, first where it would be in order.
func (n *nested) indexOf(name []byte, guess int) int {
	if guess < len(n.members) && n.members[guess] == string(name) {
		return guess
	}
	for i, member := range n.members {
		if member == string(name) {
			return i
		}
	}
	return -1
}

// length is how many elements the record has in a column of a Nested.
type length struct {
	of            *nested
	column, count int
}

// pair holds the length of a column's array against those of its Nested.
func (d *Decoder) pair(column int, encoded []byte) *Error {
	of := d.fields[column].nested
	if of == nil {
		return nil
	}
	count, width, err := readCount(encoded)
	if err != nil {
		return malformed("%s", err)
	}
	if _, raw := d.fields[column].codec.(*rawCodec); raw {
		text := encoded[width : width+count]
		if count = 0; text[0] != '[' {
			return ofColumn(wrongKind(d.table.columns[column].Type, text), d.table, d.table.columns[column].Name)
		}
		walk := elementsOf(text)
		for _, ok := walk.next(); ok; _, ok = walk.next() {
			count++
		}
	}
	for _, l := range d.lengths {
		if l.of != of {
			continue
		}
		if l.count == count {
			return nil
		}
		name := d.table.columns[column].Name
		return &Error{
			Code: CodeTypeMismatch, Column: name,
			Message: fmt.Sprintf("%s has %d elements and %s has %d: the columns of the Nested %s have one length", subject(name), count, subject(d.table.columns[l.column].Name), l.count, quoted(of.name)),
		}
	}
	d.lengths = append(d.lengths, length{of, column, count})
	return nil
}

// split takes the objects of a Nested apart, into an array for each member. None of
// its columns may be NULL, so null is as if it had been left out.
func (d *Decoder) split(n *nested, value []byte) *Error {
	if value[0] == 'n' {
		return nil
	}
	if value[0] != '[' {
		return &Error{Code: CodeTypeMismatch, Column: n.name, Message: fmt.Sprintf("%s is a Nested, which takes an array of objects, or an array in each of its columns", subject(n.name))}
	}
	parts := make([]part, len(n.columns))
	values := make([][]byte, len(n.columns))
	count := 0
	for walk := elementsOf(value); ; {
		element, ok := walk.next()
		if !ok {
			break
		}
		if count++; count*len(parts) > d.options.MaxRecordBytes {
			return tooLarge(d.options.MaxRecordBytes) // each element takes a byte of each column
		}
		if element[0] != '{' {
			return &Error{Code: CodeTypeMismatch, Column: n.name, Message: fmt.Sprintf("%s: element %d is not an object", subject(n.name), count)}
		}
		if fault := d.members(n, element, values, count); fault != nil {
			return fault
		}
		for i, member := range values {
			parts[i].add(n, i, member, count, d.options.MissingAsZero)
		}
	}
	return d.takeParts(n, parts, count)
}

// part is the array of one member, as JSON.
type part struct {
	array []byte
	// named says that an object has the member, lacks is the first without it
	// that may not be without it, counted from 1.
	named bool
	lacks int
}

func (p *part) add(n *nested, i int, member []byte, nth int, zero bool) {
	switch {
	case member != nil:
		p.named = true
	case n.absent[i] != nil:
		member = n.absent[i]
	case zero && n.zero[i] != nil:
		member = n.zero[i]
	case p.lacks == 0:
		p.lacks = nth
	}
	separator := byte(',')
	if nth == 1 {
		separator = '['
	}
	p.array = append(append(p.array, separator), member...)
}

// takeParts notes the arrays as the values of their columns. A column that no
// object has is left out where it may be.
func (d *Decoder) takeParts(n *nested, parts []part, count int) *Error {
	for i := range parts {
		p, column := &parts[i], n.columns[i]
		name := d.table.columns[column].Name
		switch {
		case !p.named && (!d.fields[column].needed || !d.granted(column)):
			continue
		case p.lacks > 0:
			return &Error{
				Code: CodeMissingColumn, Column: name, Message: fmt.Sprintf("%s: element %d of %s has no member %s", subject(name), p.lacks, quoted(n.name), quoted(n.members[i])),
				Hint: "send it, or make its type Nullable in ClickHouse",
			}
		case count == 0:
			p.array = append(p.array, '[')
		}
		d.made = append(d.made, append(p.array, ']'))
		if d.admit(column) {
			d.values[column] = extent{madeHere, len(d.made) - 1}
			setBit(d.carried, column)
		}
	}
	return nil
}

// members finds the values of an object's members.
func (d *Decoder) members(n *nested, object []byte, values [][]byte, nth int) *Error {
	clear(values)
	walk := elementsOf(object)
	for guess := 0; ; guess++ {
		key, member, ok := walk.nextMember()
		if !ok {
			break
		}
		name := unquote(key)
		i := n.indexOf(name, guess)
		if i < 0 {
			return &Error{
				Code: CodeUnknownColumn, Column: n.name + "." + excerpt.Of(name),
				Message: fmt.Sprintf("%s: element %d has the member %s, and the Nested has none of that name", subject(n.name), nth, excerpt.Of(key)),
			}
		}
		if values[i] != nil {
			return &Error{Code: CodeDuplicateColumn, Column: n.name + "." + excerpt.Of(name), Message: fmt.Sprintf("%s: member %s of element %d stands more than once", subject(n.name), excerpt.Of(key), nth)}
		}
		values[i] = member
	}
	return nil
}
