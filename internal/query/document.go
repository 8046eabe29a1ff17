package query

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/wavehouse/wavehouse/internal/excerpt"
	"github.com/wavehouse/wavehouse/internal/strictjson"
)

// MaxBytes is the largest query document, in bytes.
const MaxBytes = 1 << 20

// Bounds of one document.
const (
	maxListed  = 1_000   // columns, filters, aggregations, group_by or order_by entries
	maxInList  = 100_000 // values of one in or not_in filter
	maxNameLen = 256     // bytes of an alias
)

// Document is a structured query as its caller wrote it.
type Document struct {
	Columns      []string      `json:"columns"`
	SelectAll    bool          `json:"select_all"`
	Distinct     bool          `json:"distinct"`
	Aggregations []Aggregation `json:"aggregations"`
	Filters      []Filter      `json:"filters"`
	GroupBy      []string      `json:"group_by"`
	Totals       bool          `json:"totals"` // the aggregations over all groups, beside the rows
	Having       []Filter      `json:"having"` // on aggregations and what is grouped by
	OrderBy      []Order       `json:"order_by"`
	Limit        Count         `json:"limit"`
	Offset       Count         `json:"offset"`
	// Cursor is where the page before ended; "" begins the first page.
	Cursor     *string     `json:"cursor"`
	TimeRange  *TimeRange  `json:"time_range"`
	TimeBucket *TimeBucket `json:"time_bucket"`
	// Compare is the earlier period that the time range is compared with:
	// "previous", "previous_year" or how far it is before; "" is none.
	Compare string `json:"compare"`
	// Int64 is "number" (the default) or "string": how integers of 64 bits and
	// more, and decimals, are written in a JSON answer.
	Int64 string `json:"int64"`
}

// Aggregation is one aggregated output, or a part of a ratio.
type Aggregation struct {
	Fn     string        `json:"fn"`
	Column string        `json:"column"`
	By     string        `json:"by"` // of arg_max and arg_min
	Alias  string        `json:"alias"`
	Params []json.Number `json:"params"`
	// Where are the conditions that all hold for the rows that it sees.
	Where []Filter `json:"where"`
	// Numerator, Denominator and Scale are those of a ratio; the scale is what it
	// is multiplied by, "" for 1.
	Numerator   *Aggregation `json:"numerator"`
	Denominator *Aggregation `json:"denominator"`
	Scale       json.Number  `json:"scale"`
}

// Filter is one condition, or a group of some: exactly one of Column, And, Or
// and Not.
type Filter struct {
	Column string          `json:"column"`
	Op     string          `json:"op"`
	Value  json.RawMessage `json:"value"`
	// And holds when all of it does, as an empty one does; Or when any of it does,
	// and an empty one is refused; Not when it does not.
	And *[]Filter `json:"and"`
	Or  *[]Filter `json:"or"`
	Not *Filter   `json:"not"`
}

// Order is one sort key: an output's name or a column.
type Order struct {
	Column string `json:"column"`
	Dir    string `json:"dir"`
}

// TimeRange is since <= column < until; either bound may be left out.
type TimeRange struct {
	Column string `json:"column"`
	Since  Moment `json:"since"`
	Until  Moment `json:"until"`
	// TimeZone is the IANA name of the zone of days and lengths of the calendar;
	// "" is UTC, or for a column of dates the zone of the ClickHouse server.
	TimeZone string `json:"time_zone"`
}

// TimeBucket adds the start of each row's interval as an output and, in a query
// that aggregates, as a group.
type TimeBucket struct {
	Column string `json:"column"`
	Every  string `json:"every"`
	Alias  string `json:"alias"`
	// TimeZone is the IANA name of the zone that intervals begin in; "" is UTC.
	TimeZone string `json:"time_zone"`
	// Fill makes rows of the buckets that are empty.
	Fill bool `json:"fill"`
}

// Count is a whole number that is not negative; null is the same as leaving it
// out. A number too large for an int64 is the largest one.
type Count struct {
	N   int64
	Set bool
}

// UnmarshalStrict reads one JSON value.
func (c *Count) UnmarshalStrict(raw json.RawMessage) error {
	text := string(raw)
	if text == "null" {
		*c = Count{}
		return nil
	}
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return fmt.Errorf("want a whole number that is not negative, not %s", excerpt.Of(text))
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		n = math.MaxInt64
	}
	*c = Count{N: n, Set: true}
	return nil
}

// shapes are values of keys that take more than a text, for who wrote another kind.
var shapes = map[string]string{
	"columns": `["page"]`, "group_by": `["page"]`, "params": "[0.95]",
	"aggregations": `[{"fn": "sum", "column": "score", "alias": "total"}]`,
	"numerator":    `{"fn": "sum", "column": "score"}`, "denominator": `{"fn": "count"}`,
	"filters": oneCondition, "having": oneCondition, "where": oneCondition, "and": oneCondition, "or": oneCondition,
	"not":         oneCondition[1 : len(oneCondition)-1],
	"order_by":    `[{"column": "score", "dir": "desc"}]`,
	"time_range":  `{"column": "at", "since": "7d"}`,
	"time_bucket": `{"column": "at", "every": "1h"}`, "every": `"1h"`,
}

const oneCondition = `[{"column": "score", "op": "gt", "value": 10}]`

// shape shows what the key of a fault takes, if the fault is that its value is of
// another kind.
func shape(f strictjson.Fault) string {
	key := f.Path[strings.LastIndexByte(f.Path, '.')+1:]
	if meant, known := otherKeys[key]; known && strings.Contains(f.Message+",", " "+meant+",") {
		return "; " + strconv.Quote(key) + " is called " + strconv.Quote(meant)
	}
	key, _, element := strings.Cut(key, "[")
	like, known := shapes[key]
	if !known || !strings.HasPrefix(f.Message, "want ") {
		return ""
	}
	if element {
		like = like[1 : len(like)-1]
	}
	return ", such as " + like
}

// otherKeys are keys as other languages call them; a fault that lists the keys which
// there are names the one that is meant.
var otherKeys = map[string]string{
	"select": "columns", "fields": "columns", "where": "filters", "sort": "order_by", "skip": "offset", "page": "cursor", "top": "limit",
	"as": "alias", "name": "alias", "function": "fn", "field": "column", "operator": "op", "values": "value",
	"direction": "dir", "order": "dir", "from": "since", "start": "since", "to": "until", "end": "until", "interval": "every", "unit": "every", "tz": "time_zone",
}

// Parse reads a query document. The error is an *Error that names every fault.
func Parse(body []byte) (*Document, error) {
	doc := new(Document)
	faults := strictjson.Decode(body, doc)
	if len(faults) == 0 {
		return doc, nil
	}
	const shown = 5
	var text []string
	for _, f := range faults[:min(len(faults), shown)] {
		text = append(text, f.String()+shape(f))
	}
	if more := len(faults) - shown; more > 0 {
		text = append(text, fmt.Sprintf("and %d more", more))
	}
	return nil, invalid("the query document is not valid: %s", strings.Join(text, "; "))
}
