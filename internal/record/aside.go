package record

import (
	"bytes"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/excerpt"
	"github.com/wavehouse/wavehouse/internal/nearest"
)

// UnknownFields is what becomes of the fields of a record that the table has no
// column for.
type UnknownFields uint8

// What becomes of unknown fields. Collected ones become one value of
// DecodeOptions.CollectInto.
const (
	RejectUnknown UnknownFields = iota
	DropUnknown
	CollectUnknown
)

// Unknown is a field that the table has no column for, valid as long as its
// record.
type Unknown struct {
	// Name is as it was sent, Value the JSON of the value; that of a CSV or TSV
	// field is a JSON string, or a number or boolean when it reads as one.
	Name, Value []byte
}

const (
	// maxUnknown bounds the unknown fields of a record that are looked at. No
	// more are collected.
	maxUnknown = 256
	// maxHints bounds the names that are looked for among the columns, per body.
	maxHints = 8
	// maxHintColumns is up to how many columns a table has that are looked
	// through.
	maxHintColumns = 512
	// madeHere, instead of an offset, says that a value was made from others, and
	// is in Decoder.made.
	madeHere = -1
)

// Columns that scanColumn returns for keys that are none.
const (
	noColumn = -1
	// setAside: the last of Decoder.aside.
	setAside = -2
)

// aside is a key of a record that is no column, and its value.
type aside struct {
	name   []byte
	value  extent
	nested *nested // nil for one that is unknown, or the data of an event
	event  bool
}

// unusual finds out what a key is that is no column.
func (d *Decoder) unusual(name []byte) int {
	a := aside{name: name, nested: d.table.nested[string(name)]}
	switch {
	case d.options.EventData != "" && string(name) == eventData && !d.within:
		a.event = true
	case a.nested != nil:
	case d.isEnvelope(name):
		return noColumn
	case !d.noteUnknown(name):
		return noColumn
	}
	d.aside = append(d.aside, a)
	return setAside
}

// noteUnknown judges a field that the table has no column for, and reports
// whether it is to be looked at.
func (d *Decoder) noteUnknown(name []byte) bool {
	d.unknowns++
	switch d.options.UnknownFields {
	case DropUnknown:
	case CollectUnknown:
		if d.collect >= 0 && d.granted(d.collect) {
			if d.unknowns > maxUnknown {
				d.blame(&Error{Code: CodeTooLarge, Message: "the record has more than 256 fields that table " + quoted(d.table.name) + " has no column for"})
			}
			break
		}
		fallthrough
	default:
		if d.fault == nil {
			d.blame(&Error{
				Code: CodeUnknownColumn, Column: excerpt.Of(name),
				Message: "table " + quoted(d.table.name) + " has no " + subject(string(name)), Hint: d.nearest(name),
			})
		}
	}
	return d.unknowns <= maxUnknown
}

// nearest suggests a column that the sender may send instead.
func (d *Decoder) nearest(name []byte) string {
	if d.hints++; d.hints > maxHints || len(d.table.columns) > maxHintColumns {
		return ""
	}
	var names []string
	for i := range d.table.columns {
		if !d.table.fields[i].computed && d.granted(i) {
			names = append(names, d.table.columns[i].Name)
		}
	}
	if near, ok := nearest.Name(string(name), names); ok {
		return "did you mean " + quoted(near) + "?"
	}
	return ""
}

// settle turns what was set aside into values of columns.
func (d *Decoder) settle() {
	for i := 0; i < len(d.aside); i++ { // the data of an event adds to them
		a := &d.aside[i]
		var fault *Error
		switch value := d.asideValue(a); {
		case a.event:
			fault = d.takeEvent(a.value)
		case a.nested != nil:
			fault = d.split(a.nested, value)
		default:
			d.unknown = append(d.unknown, Unknown{a.name, value})
		}
		if fault != nil {
			d.blame(fault)
		}
	}
	if d.collect < 0 || d.fault != nil {
		return
	}
	if len(d.unknown) > 0 || d.table.fields[d.collect].required && !hasBit(d.sent, d.collect) && d.granted(d.collect) {
		d.collectUnknown()
	}
}

func (d *Decoder) asideValue(a *aside) []byte {
	if a.value.from == madeHere {
		return d.made[a.value.to]
	}
	return d.src[a.value.from:a.value.to]
}

// collectUnknown makes one value of the unknown fields.
func (d *Decoder) collectUnknown() {
	name := d.table.columns[d.collect].Name
	if hasBit(d.sent, d.collect) {
		d.blame(&Error{
			Code: CodeDuplicateColumn, Column: name, Message: subject(name) + " is sent, and is where fields without a column are collected, such as " + quoted(string(d.unknown[0].Name)),
			Hint: "send one or the other",
		})
		return
	}
	object := []byte{'{'}
	for i, u := range d.unknown {
		for _, before := range d.unknown[:i] {
			if bytes.Equal(before.Name, u.Name) {
				d.blame(&Error{Code: CodeDuplicateColumn, Column: excerpt.Of(u.Name), Message: "field " + quoted(string(u.Name)) + " stands more than once"})
				return
			}
		}
		if i > 0 {
			object = append(object, ',')
		}
		object = append(AppendJSONString(object, u.Name), ':')
		if u.Value[0] == '"' || d.collectJSON {
			object = append(object, u.Value...)
			continue
		}
		object = AppendJSONString(object, u.Value)
	}
	d.made = append(d.made, append(object, '}'))
	if d.admit(d.collect) {
		d.values[d.collect] = extent{madeHere, len(d.made) - 1}
		setBit(d.carried, d.collect)
	}
}

// collector finds the column for unknown fields, negative when there is none
// that can hold them.
func (t *Table) collector(name string) (column int, isJSON bool) {
	column, ok := t.index[name]
	if !ok || t.fields[column].computed {
		return noColumn, false
	}
	text := Collects(t.columns[column].Type)
	if text == "" {
		return noColumn, false
	}
	return column, text == collectsJSON
}

// collectsMap and collectsJSON are the kinds of columns that Collects finds.
const (
	collectsMap  = "Map"
	collectsJSON = "JSON"
)

// Collects returns how a column of the type holds unknown fields: "Map" for a
// Map of strings to strings, "JSON" for a JSON, "" for any other type, which does
// not.
func Collects(typeText string) string {
	t, err := coltype.Parse(typeText)
	if err != nil {
		return ""
	}
	text := func(t coltype.Type) bool { return t.Plain().Kind == coltype.String }
	switch t = t.Plain(); {
	case t.Kind == coltype.JSON:
		return collectsJSON
	case t.Kind == coltype.Map && text(t.Elems[0]) && text(t.Elems[1]):
		return collectsMap
	}
	return ""
}
