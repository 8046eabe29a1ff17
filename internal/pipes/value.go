package pipes

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// scalar is one value, checked: its text for ClickHouse and the narrowest
// ClickHouse type that holds it.
type scalar struct {
	text string
	typ  string
}

// bound is a parameter's value as it is sent.
type bound struct {
	typ  string // ClickHouse's
	text string // escaped for the HTTP interface
}

// bind reads a value of the type: a JSON value (numbers as json.Number), or the
// text of a query string.
func (t valueType) bind(value any) (bound, error) {
	if !t.array {
		s, err := t.scalar(value)
		if err != nil {
			return bound{}, err
		}
		return bound{typ: s.typ, text: clickhouse.EscapeParam(s.text)}, nil
	}
	list, ok := value.([]any)
	if !ok {
		return bound{}, fmt.Errorf("want an array, not %s", describe(value))
	}
	scalars := make([]scalar, len(list))
	for i, item := range list {
		s, err := t.scalar(item)
		if err != nil {
			return bound{}, fmt.Errorf("element %d: %w", i+1, err)
		}
		scalars[i] = s
	}
	return t.list(scalars), nil
}

// list is an array literal of a type that holds all its elements.
func (t valueType) list(scalars []scalar) bound {
	typ := emptyType(t.kind)
	var b strings.Builder
	b.WriteByte('[')
	for i, s := range scalars {
		if i == 0 {
			typ = s.typ
		}
		typ = wider(typ, s.typ)
		if i > 0 {
			b.WriteByte(',')
		}
		if t.kind == kindNumber || t.kind == kindBoolean {
			b.WriteString(s.text)
		} else {
			b.WriteString(clickhouse.QuoteString(s.text))
		}
	}
	b.WriteByte(']')
	return bound{typ: "Array(" + typ + ")", text: b.String()}
}

func emptyType(k kind) string {
	return [...]string{"String", "Int64", "Bool", "Date32", datetimeType, "UUID", "String"}[k]
}

// widths orders the types of numbers and dates: a later one holds what an
// earlier one does.
var widths = []string{"Int64", "UInt64", "Int256", "Float64", "Date", "Date32"}

func wider(a, b string) string {
	if a == "Int64" && b == "UInt64" || a == "UInt64" && b == "Int64" {
		return "Int256"
	}
	if slices.Index(widths, b) > slices.Index(widths, a) {
		return b
	}
	return a
}

// null is an optional parameter that was not given.
func (t valueType) null() bound {
	if t.array {
		return t.list(nil)
	}
	return bound{typ: "Nullable(" + emptyType(t.kind) + ")", text: `\N`}
}

func (t valueType) scalar(value any) (scalar, error) {
	switch t.kind {
	case kindNumber:
		return numberOf(value)
	case kindBoolean:
		return booleanOf(value)
	}
	s, ok := value.(string)
	if !ok {
		return scalar{}, fmt.Errorf("want %s, not %s", t.wanted(), describe(value))
	}
	if !utf8.ValidString(s) {
		return scalar{}, errors.New("the text is not valid UTF-8")
	}
	switch t.kind {
	case kindDate:
		return dateOf(s)
	case kindDatetime:
		return datetimeOf(s)
	case kindUUID:
		return uuidOf(s)
	case kindIdentifier:
		if !slices.Contains(t.choices, s) {
			return scalar{}, fmt.Errorf("want one of %s, not %q", strings.Join(t.choices, ", "), excerpt.Of(s))
		}
	}
	return scalar{text: s, typ: "String"}, nil
}

func (t valueType) wanted() string {
	switch t.kind {
	case kindString:
		return "a string"
	case kindUUID:
		return "a UUID as a string"
	}
	return "a string with the " + kindNames[t.kind]
}

// numberOf takes what JSON takes for a number. Whole numbers stay exact.
func numberOf(value any) (scalar, error) {
	var s string
	switch v := value.(type) {
	case json.Number:
		s = v.String()
	case string:
		s = v
	default:
		return scalar{}, fmt.Errorf("want a number, not %s", describe(value))
	}
	if !json.Valid([]byte(s)) || strings.Trim(s, "0123456789+-.eE") != "" {
		return scalar{}, fmt.Errorf("want a number, not %q", excerpt.Of(s))
	}
	if !strings.ContainsAny(s, ".eE") {
		return wholeOf(s)
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(f, 0) {
		return scalar{}, fmt.Errorf("the number %s is out of range", excerpt.Of(s))
	}
	return scalar{text: s, typ: "Float64"}, nil
}

func wholeOf(s string) (scalar, error) {
	const digits = 78 // of the largest Int256
	if len(s) > digits {
		return scalar{}, fmt.Errorf("the number %s is out of range", excerpt.Of(s))
	}
	n, ok := new(big.Int).SetString(s, 10)
	switch {
	case !ok || n.BitLen() > 255:
		return scalar{}, fmt.Errorf("the number %s is out of range", excerpt.Of(s))
	case n.IsInt64():
		return scalar{text: n.String(), typ: "Int64"}, nil
	case n.IsUint64():
		return scalar{text: n.String(), typ: "UInt64"}, nil
	}
	return scalar{text: n.String(), typ: "Int256"}, nil
}

func booleanOf(value any) (scalar, error) {
	switch v := value.(type) {
	case bool:
		return scalar{text: strconv.FormatBool(v), typ: "Bool"}, nil
	case string:
		switch v {
		case "true", "1":
			return scalar{text: "true", typ: "Bool"}, nil
		case "false", "0":
			return scalar{text: "false", typ: "Bool"}, nil
		}
		return scalar{}, fmt.Errorf("want true or false, not %q", excerpt.Of(v))
	}
	return scalar{}, fmt.Errorf("want true or false, not %s", describe(value))
}

// Bounds of ClickHouse's Date32, Date and DateTime64.
const (
	firstYear, lastYear = 1900, 2299
	firstDate, lastDate = "1970-01-01", "2149-06-06"
)

func dateOf(s string) (scalar, error) {
	day, err := time.Parse(time.DateOnly, s)
	if err != nil {
		return scalar{}, fmt.Errorf("want a date like 2026-03-24, not %q", excerpt.Of(s))
	}
	switch {
	case day.Year() < firstYear || day.Year() > lastYear:
		return scalar{}, fmt.Errorf("the date %s is out of range: want 1900-01-01 to 2299-12-31", s)
	case s < firstDate || s > lastDate:
		return scalar{text: s, typ: "Date32"}, nil
	}
	return scalar{text: s, typ: "Date"}, nil
}

const datetimeType = "DateTime64(6, 'UTC')"

// datetimeOf takes RFC 3339; without a zone it is UTC, without a time the
// first moment of the day.
func datetimeOf(s string) (scalar, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", time.DateOnly} {
		at, err := time.Parse(layout, s)
		if err != nil {
			continue
		}
		at = at.UTC()
		if at.Year() < firstYear || at.Year() > lastYear {
			return scalar{}, fmt.Errorf("the time %q is out of range: want the years 1900 to 2299", excerpt.Of(s))
		}
		return scalar{text: at.Format("2006-01-02 15:04:05.000000"), typ: datetimeType}, nil
	}
	return scalar{}, fmt.Errorf("want a time like 2026-03-24T12:00:00Z, not %q", excerpt.Of(s))
}

func uuidOf(s string) (scalar, error) {
	valid := len(s) == 36
	for i := 0; valid && i < len(s); i++ {
		c := s[i]
		if i == 8 || i == 13 || i == 18 || i == 23 {
			valid = c == '-'
			continue
		}
		valid = c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
	}
	if !valid {
		return scalar{}, fmt.Errorf("want a UUID, not %q", excerpt.Of(s))
	}
	return scalar{text: strings.ToLower(s), typ: "UUID"}, nil
}

// claimValue binds a claim by what it is. It is not ok for a claim that is
// missing, null, or made of parts, nor for one that says nothing, as in a row
// rule: an empty text would meet the columns that were left empty, and nothing
// is outside of an empty list.
func claimValue(value any) (bound, bool) {
	t := valueType{}
	first := value
	if list, isList := value.([]any); isList {
		if len(list) == 0 || slices.Contains(list, any("")) {
			return bound{}, false
		}
		t.array, first = true, list[0]
	}
	if first == "" {
		return bound{}, false
	}
	switch first.(type) {
	case string:
		t.kind = kindString
	case json.Number:
		t.kind = kindNumber
	case bool:
		t.kind = kindBoolean
	default:
		return bound{}, false
	}
	b, err := t.bind(value)
	return b, err == nil
}

func describe(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case string:
		return strconv.Quote(excerpt.Of(v))
	case json.Number:
		return "the number " + excerpt.Of(v.String())
	case bool:
		return strconv.FormatBool(v)
	case []any:
		return "an array"
	}
	return "an object"
}
