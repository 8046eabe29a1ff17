package record_test

import "strings"

// difference is a group of values of which we make something else than
// ClickHouse does, on purpose.
type difference struct {
	why string
	// types are beginnings of types, with a space at the end for a whole one;
	// none is every type.
	types  []string
	values []string
}

var (
	integerTypes = []string{"Int", "UInt"}
)

// differences is the whole list. Where ClickHouse takes a value and we do not,
// what it stores is another value than the one that was sent.
var differences = []difference{
	{"NULL in a type without NULL is no zero", nil, []string{"null", "[1,null]", `{"a":null}`, `{"a":null,"d":[]}`}},
	{"a boolean is no number and no day", nil, []string{"true"}},
	{"an empty text is no zero", nil, []string{`""`}},
	{"an integer out of range does not wrap", append([]string{"Nullable", "Array", "Map", "LowCardinality"}, integerTypes...), []string{
		"128", "-129", "256", "32768", "65536", "2147483648", "4294967296", "9223372036854775808", "18446744073709551616", "99999999999999999999999",
		"170141183460469231731687303715884105728", "340282366920938463463374607431768211456", "300", "[1,300]", `{"a":300}`,
	}},
	{"a number out of range is no infinity", []string{"Float", "BFloat16"}, []string{"1e400", "1e39", "1e300"}},
	{"digits beyond the scale are not cut", []string{"Decimal"}, []string{"1.234", "1e-5", "5.5", "0.5", `"0.50"`, `".5"`, `"+0.5"`, "1e-1"}},
	{"an exponent has digits", []string{"Decimal"}, []string{`"1e"`}},
	{"an object or an array is no text", []string{"String", "LowCardinality"}, []string{"[1]", `{"a":1}`, "[]"}},
	{"a key stands once", []string{"Map"}, []string{`{"a":1,"a":2}`, `{"1":[],"01":[]}`}},
	{"every member is named, and no other", []string{"Tuple"}, []string{`{"b c":"x","d":[]}`, `{"a":1,"d":[],"z":1}`}},
	{"a named tuple may come as an array", []string{"Tuple"}, []string{"[1,null,[]]"}},
	{"leading zeros of an address could be octal", []string{"IPv4"}, []string{`"01.2.3.4"`}},
	{"Bool takes its own names as text", []string{"Bool"}, []string{`"true"`, `"false"`}},
	{"a day is written YYYY-MM-DD, and exists, and is in range", []string{"Date ", "Date32 "}, []string{
		`"1969-12-31"`, `"2026-02-30"`, `"2026-3-4"`, `"20260304"`, `"2149-06-07"`, `"2200-01-01"`, `"2300-01-01"`, `"1899-12-31"`, "1769904000", "20000", "20260304",
	}},
	{"an instant out of range is not moved into it", []string{"DateTime"}, []string{
		`"2106-02-07T06:28:16Z"`, `"1969-12-31T23:59:59Z"`, `"2300-01-01T00:00:00Z"`, `"1899-12-31T23:59:59.999Z"`,
	}},
	{"the unit of a number since 1970 is told by its digits", []string{"DateTime"}, []string{
		"5", "-1", "1769904000", "1769904000000", "1769904000250", "1769904000250000", "1769904000250000000", "4294967296", "20260304", `"1769904000250"`,
	}},
	{"a fraction of a number since 1970 means seconds", []string{"DateTime"}, []string{"1769904000.25", "1769904000.0"}},
	{"digits that could be a date are not guessed at", []string{"DateTime"}, []string{`"20260304"`, `"20260304050607"`}},
	{"a fraction finer than the column is not cut", []string{"DateTime64"}, []string{`"2026-03-04T05:06:07.0899Z"`}},
	{"a time of day exists", []string{"DateTime"}, []string{`"2026-03-04T05:06:60Z"`, `"2026-03-04T24:00:00Z"`, `"2026-03-08 02:30:00"`, `"1986-01-01 00:10:00"`}},
	{"RFC 3339 allows small letters and no space", []string{"DateTime"}, []string{`"2026-03-04t05:06:07z"`, `"2026-03-04T05:06:07 Z"`}},
}

// differs returns the entry of the list that a value falls under, "" for none.
func differs(typeText, value string) string {
	for _, d := range differences {
		if !d.covers(typeText) {
			continue
		}
		for _, v := range d.values {
			if v == value {
				return d.why + ": " + v
			}
		}
	}
	return ""
}

func (d difference) covers(typeText string) bool {
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
	}
	return all
}
