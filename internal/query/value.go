package query

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/excerpt"
	"github.com/wavehouse/wavehouse/internal/record"
)

// Bounds of the values that travel as parameters. ClickHouse takes a parameter
// of up to 128 KiB and an address line of up to 1 MiB.
const (
	maxValueBytes  = 64 << 10
	maxValuesBytes = 256 << 10
)

// values collects what a statement compares with: parameters and tables.
type values struct {
	prefix   string // of the names of tables
	param    string // of the names of parameters
	params   map[string]string
	owned    map[string]string // names of parameters that are made here, by their text
	bytes    int
	external []clickhouse.ExternalTable
}

// bind adds a parameter with the given text and returns its name.
func (v *values) bind(clause, text string) (string, *Error) {
	escaped := clickhouse.EscapeParam(text)
	if len(escaped) > maxValueBytes {
		return "", invalid("%s: the value is longer than %d bytes", clause, maxValueBytes)
	}
	if v.bytes += len(escaped); v.bytes > maxValuesBytes {
		return "", invalid("%s: the query's values are longer than %d bytes together; an in list may be longer", clause, maxValuesBytes)
	}
	name := v.param + strconv.Itoa(len(v.params))
	v.params[name] = escaped
	return name, nil
}

// own adds a parameter that is made here, once, and returns its name: it counts
// against nothing of the caller's.
func (v *values) own(text string) string {
	if name, known := v.owned[text]; known {
		return name
	}
	name := "p" + strconv.Itoa(len(v.params))
	v.params[name] = text
	if v.owned == nil {
		v.owned = map[string]string{}
	}
	v.owned[text] = name
	return name
}

// table adds a table of one column v and returns its name.
func (v *values) table(typ string, rows []byte) string {
	name := v.prefix + strconv.Itoa(len(v.external))
	v.external = append(v.external, clickhouse.ExternalTable{
		Name: name, Structure: "v " + typ, Format: "RowBinary", Data: rows,
	})
	return name
}

// comparableColumn refuses columns whose values cannot be compared with one that a
// caller writes.
func comparableColumn(clause string, col column) *Error {
	if col.codec != nil && col.typ.Ordered() {
		return nil
	}
	instead := ""
	switch col.typ.Kind {
	case coltype.Array:
		instead = fmt.Sprintf("; %q looks for an element, and %s[1] is one", "contains", excerpt.Of(col.name))
	case coltype.Map:
		instead = fmt.Sprintf("; %q looks for a key, and %s.key is the value of one", "contains", excerpt.Of(col.name))
	case coltype.JSON, coltype.Tuple:
		instead = fmt.Sprintf("; name what is in it, as in %s.name", excerpt.Of(col.name))
	}
	return invalidColumn(col.name, "%s: the column %q of type %s cannot be compared with a value%s", clause, excerpt.Of(col.name), col.plain, instead)
}

// scalar judges a value as ingest would and returns the parameter type and the
// text that carry it to ClickHouse unchanged.
func scalar(clause string, col column, value json.RawMessage) (typ, text string, fault *Error) {
	if fault := comparableColumn(clause, col); fault != nil {
		return "", "", fault
	}
	encoded, err := col.codec.AppendJSON(nil, value)
	if err != nil {
		return "", "", refused(clause, col, value, err)
	}
	rendered, _, err := col.codec.RenderJSON(nil, encoded, record.RenderOptions{})
	if err != nil {
		return "", "", refused(clause, col, value, err)
	}
	typ, text = spell(col, value, string(rendered))
	if col.typ.Kind == coltype.Enum && strings.ContainsRune(text, utf8.RuneError) {
		text = enumName(col.typ, encoded)
	}
	return typ, text, nil
}

// spell turns a value's JSON into the text of a parameter. Times are spelled in
// UTC with the zone in the type, because a parameter is not read as
// best-effort, and an Enum by its name, which ClickHouse compares as the Enum.
func spell(col column, value json.RawMessage, rendered string) (typ, plain string) {
	plain, quoted := text(json.RawMessage(rendered))
	if !quoted {
		plain = rendered
	}
	switch col.typ.Kind {
	case coltype.Enum, coltype.String:
		return "String", plain
	case coltype.DateTime:
		return "DateTime('UTC')", clockText(plain)
	case coltype.DateTime64:
		return timestampType(col.typ.Precision), clockText(plain)
	case coltype.Float:
		if rendered == "null" {
			return col.plain, notFinite(string(value))
		}
	}
	return col.plain, plain
}

// enumName is the name that an encoded value has, of any bytes.
func enumName(t coltype.Type, encoded []byte) string {
	number := int16(int8(encoded[0])) //nolint:gosec // the bits of a number
	if len(encoded) == 2 {
		number = int16(binary.LittleEndian.Uint16(encoded)) //nolint:gosec // the same
	}
	at := slices.IndexFunc(t.Values, func(v coltype.EnumValue) bool { return v.Value == number })
	return t.Values[at].Name
}

// clockText turns an RFC 3339 time in UTC into ClickHouse's own spelling.
func clockText(rfc3339 string) string {
	return strings.TrimSuffix(strings.Replace(rfc3339, "T", " ", 1), "Z")
}

// notFinite spells the float values that JSON has no number for; the codec has
// accepted the value as one of them.
func notFinite(value string) string {
	lower := strings.ToLower(value)
	switch {
	case strings.Contains(lower, "nan"):
		return "nan"
	case strings.Contains(lower, "-"):
		return "-inf"
	}
	return "inf"
}

// finerThanColumn reads an RFC 3339 time with a fraction that is beyond the range
// of the column, but can be compared with.
func finerThanColumn(col column, value json.RawMessage) (time.Time, bool) {
	if col.typ.Kind != coltype.DateTime && col.typ.Kind != coltype.DateTime64 {
		return time.Time{}, false
	}
	s, ok := text(value)
	if !ok {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	return t, err == nil && t.Nanosecond() != 0 && holds(t, 9)
}

// floor is record.Floor for the column's type.
func (c column) floor(value json.RawMessage) (floor json.RawMessage, exact, ok bool) {
	if c.codec == nil {
		return nil, false, false
	}
	return record.Floor(c.typ, value)
}

// appendFloor appends what floor finds as the column holds it.
func (c column) appendFloor(rows []byte, value json.RawMessage) (appended []byte, exact, ok bool) {
	floor, exact, ok := c.floor(value)
	if !ok {
		return rows, false, false
	}
	appended, err := c.codec.AppendJSON(rows, floor)
	return appended, exact, err == nil
}

// text returns the content of a JSON string.
func text(value json.RawMessage) (s string, ok bool) {
	if len(value) == 0 || value[0] != '"' {
		return "", false
	}
	return s, json.Unmarshal(value, &s) == nil
}

// refused words what a codec says about a value.
func refused(clause string, col column, value json.RawMessage, err error) *Error {
	message := err.Error()
	var fault *record.Error
	if errors.As(err, &fault) {
		message = fault.Message
		if fault.Code == record.CodeTypeMismatch {
			message += wanted(col.typ.Kind, value)
		}
	}
	return invalidColumn(col.name, "%s: the column %q of type %s: %s", clause, excerpt.Of(col.name), col.plain, message)
}

// wanted says how a time is written, where people write what a time_range takes,
// and where several values go.
func wanted(kind coltype.Kind, value json.RawMessage) string {
	if len(value) > 0 && value[0] == '[' {
		return `; "in" takes several values`
	}
	switch kind {
	case coltype.DateTime, coltype.DateTime64:
		return `; want a time such as "2026-06-21T04:00:00Z"; one that counts back from now goes in time_range`
	case coltype.Date, coltype.Date32:
		return `; want a day such as "2026-06-21"; one that counts back from now goes in time_range`
	}
	return ""
}

func timestampType(precision int) string { return fmt.Sprintf("DateTime64(%d, 'UTC')", precision) }

// timestampText spells an instant with the given number of fractional digits.
func timestampText(t time.Time, precision int) string {
	layout := "2006-01-02 15:04:05"
	if precision > 0 {
		layout += "." + strings.Repeat("0", precision)
	}
	return t.UTC().Format(layout)
}

// holds reports whether a DateTime64 of the precision can hold the instant.
func holds(t time.Time, precision int) bool {
	last := 2299
	if precision > 8 {
		last = 2261 // the year before nanoseconds run out of 64 bits
	}
	year := t.UTC().Year()
	return year >= 1900 && year <= last
}
