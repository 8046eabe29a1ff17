package record_test

import (
	"encoding/json"
	"slices"
	"strings"
)

// difference is a group of values of which we make something else than
// ClickHouse does, on purpose.
type difference struct {
	why string
	// types are beginnings of types, with a space at the end for a whole one;
	// none is every type.
	types  []string
	values []string
	// formats are those it is about; none is every format.
	formats []string
	// notation, when set, is instead of values: what a text looks like.
	notation func(text string) bool
}

var integerTypes = []string{"Int", "UInt"}

// compositeTypes begin the types whose fields have a notation.
var compositeTypes = []string{"Array", "Map", "Tuple", "Nested", "Point", "Ring", "LineString", "MultiLineString", "Polygon", "MultiPolygon", "SimpleAggregateFunction(groupArrayArray"}

var textFormats = []string{"CSV", "TSV"}

// differences is the whole list. Where ClickHouse takes a value and we do not,
// what it stores is another value than the one that was sent.
var differences = []difference{
	{why: "NULL in a type without NULL is no zero", values: []string{"null", "[1,null]", `{"a":null}`, `{"a":null,"d":[]}`}},
	{why: "a boolean is no number and no day", values: []string{"true"}, formats: []string{"JSON"}},
	{why: "an empty text is no zero", values: []string{`""`}},
	{why: "an integer out of range does not wrap", types: append([]string{"Nullable", "Array", "Map", "LowCardinality", "Tuple", "Interval", "SimpleAggregateFunction"}, integerTypes...), values: []string{
		"128", "-129", "256", "32768", "65536", "2147483648", "4294967296", "9223372036854775808", "18446744073709551616", "99999999999999999999999",
		"170141183460469231731687303715884105728", "340282366920938463463374607431768211456", "300", "[1,300]", "[300]", `{"a":300}`, "{'a':300}", "(300,'x')",
	}},
	{why: "a number out of range is no infinity", types: []string{"Float", "BFloat16"}, values: []string{"1e400", "1e39", "1e300"}},
	{why: "digits beyond the scale are not cut", types: []string{"Decimal", "Nullable(Decimal"}, values: []string{"1.555", "1.234", "1e-5", "5.5", "0.5", `"0.50"`, `".5"`, `"+0.5"`, "1e-1"}},
	{why: "an exponent has digits", types: []string{"Decimal"}, values: []string{`"1e"`}},
	{why: "an object or an array is no text", types: []string{"String", "LowCardinality"}, values: []string{"[1]", `{"a":1}`, "[]"}},
	{why: "a key stands once", types: []string{"Map"}, values: []string{`{"a":1,"a":2}`, `{"1":[],"01":[]}`, "{'a':1,'a':2}"}},
	{why: "every member is named, and no other", types: []string{"Tuple"}, values: []string{`{"b c":"x","d":[]}`, `{"a":1,"d":[],"z":1}`}},
	{why: "a named tuple may come as an array", types: []string{"Tuple"}, values: []string{"[1,null,[]]"}},
	{why: "leading zeros of an address could be octal", types: []string{"IPv4"}, values: []string{`"01.2.3.4"`}},
	{why: "Bool takes its own names as text", types: []string{"Bool"}, values: []string{`"true"`, `"false"`}, formats: []string{"JSON"}},
	{why: "Bool takes no other words than true and false", types: []string{"Bool"}, values: []string{`"yes"`}},
	{why: "a day is written YYYY-MM-DD, and exists, and is in range", types: []string{"Date ", "Date32 "}, values: []string{
		`"1969-12-31"`, `"2026-02-30"`, `"2026-3-4"`, `"20260304"`, `"2149-06-07"`, `"2200-01-01"`, `"2300-01-01"`, `"1899-12-31"`, "1769904000", "20000", "20260304",
	}},
	{why: "an instant out of range is not moved into it", types: []string{"DateTime"}, values: []string{
		`"2106-02-07T06:28:16Z"`, `"1969-12-31T23:59:59Z"`, `"2300-01-01T00:00:00Z"`, `"1899-12-31T23:59:59.999Z"`,
	}},
	{why: "the unit of a number since 1970 is told by its digits", types: []string{"DateTime"}, values: []string{
		"5", "-1", "1769904000", "1769904000000", "1769904000250", "1769904000250000", "1769904000250000000", "4294967296", "20260304", `"1769904000250"`,
	}},
	{why: "a fraction of a number since 1970 means seconds", types: []string{"DateTime"}, values: []string{"1769904000.25", "1769904000.0"}},
	{why: "digits that could be a date are not guessed at", types: []string{"DateTime"}, values: []string{`"20260304"`, `"20260304050607"`}},
	{why: "a fraction finer than the column is not cut", types: []string{"DateTime64"}, values: []string{`"2026-03-04T05:06:07.0899Z"`}},
	{why: "a time of day exists", types: []string{"DateTime"}, values: []string{`"2026-03-04T05:06:60Z"`, `"2026-03-04T24:00:00Z"`, `"2026-03-08 02:30:00"`, `"1986-01-01 00:10:00"`}},
	{why: "a time of day is written hh:mm:ss, with minutes and seconds below 60", types: []string{"Time", "Nullable(Time", "Array(Time)"}, values: []string{
		`"12:34"`, `"12:60:00"`, `"12:00:60"`, "5", "-5", "3600000", "5.25", `"5"`, `"5.5"`, `"12:34:56."`, "[5]", " 1", "1 ", ` "1" `,
	}},
	{why: "a fraction finer than a time of day is not cut, and one of zeros is fine", types: []string{"Time", "Nullable(Time"}, values: []string{`"12:34:56.000"`, `"00:00:00.1234"`}},
	{why: "blanks of a text are kept, unless they stand around quotes", types: []string{"String", "FixedString", "LowCardinality", "SimpleAggregateFunction(anyLast"}, values: []string{" 1", "1 ", " "}, formats: []string{"CSV"}},
	{why: "blanks are no part of a number", types: []string{"DateTime", "LowCardinality(DateTime", "Nullable(DateTime"}, values: []string{" 1", "1 "}, formats: []string{"TSV"}},
	{why: "one digit is seconds since 1970, and no day of this year", types: []string{"DateTime", "LowCardinality(DateTime", "Nullable(DateTime"}, values: []string{"0", " 1", "1 ", ` "1" `, `\x31`}, formats: textFormats},
	{why: "escapes are resolved whatever the type", values: []string{`\x31`}, formats: []string{"TSV"}},
	{why: "arrays, maps and tuples may come as JSON, or with numbers in quotes", types: compositeTypes, formats: textFormats, notation: func(text string) bool {
		return json.Valid([]byte(text)) || text == "['1']" || text == "[['1.5']]"
	}},
	{why: "an array has its brackets, no comma at the end, and nothing after it", types: compositeTypes, formats: textFormats, values: []string{"[1,]", "1,2", "[1]x", " 1", "1 ", ` "1" `}},
	{why: "NULL alone is no array", types: []string{"Array(Nullable"}, formats: textFormats, values: []string{"NULL"}},
	{why: "RFC 3339 allows small letters", types: []string{"DateTime"}, values: []string{`"2026-03-04t05:06:07z"`}},
	{why: "a field that is left out is no zero", values: []string{"", `\N`, " "}, formats: textFormats},
	{why: "a number reads as in JSON whether or not it stands in quotes, has a plus sign or leading zeros", values: []string{`"+5"`, `"007"`, `"0"`, "1", `"1"`, ` "1" `, "1 ", `"TRUE"`, "true", "false", `"true"`, `"false"`}, formats: textFormats},
}

// differs returns the entry of the list that a value falls under, and how the
// list writes the value; nil for none. A field of text is listed as it is, or
// as the JSON string or other JSON value that it is the text of.
func differs(format, typeText string, v value) (d *difference, listed string) {
	forms := []string{v.origin}
	if format != "JSON" {
		forms = append(forms, v.text, strings.Trim(v.origin, `"`), `"`+v.origin+`"`)
	}
	for _, form := range forms {
		for i := range differences {
			if differences[i].covers(format, typeText) && slices.Contains(differences[i].values, form) {
				return &differences[i], form
			}
		}
	}
	for i := range differences {
		if n := differences[i].notation; n != nil && differences[i].covers(format, typeText) && n(v.origin) {
			return &differences[i], "any"
		}
	}
	return nil, ""
}

func (d difference) covers(format, typeText string) bool {
	if d.formats != nil && !slices.Contains(d.formats, format) {
		return false
	}
	for _, prefix := range d.types {
		if strings.HasPrefix(typeText+" ", prefix) {
			return true
		}
	}
	return d.types == nil
}

// unmet returns every entry of the list.
func unmet() map[string]bool {
	all := make(map[string]bool)
	for _, d := range differences {
		for _, v := range d.values {
			all[d.why+": "+v] = true
		}
		if d.notation != nil {
			all[d.why+": any"] = true
		}
	}
	return all
}
