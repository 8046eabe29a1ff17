package wavehouse

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"regexp"
)

// Document is a query; the server's manual says what each key does.
type Document struct {
	Columns      []string      `json:"columns,omitempty"`
	SelectAll    bool          `json:"select_all,omitempty"`
	Distinct     bool          `json:"distinct,omitempty"`
	Aggregations []Aggregation `json:"aggregations,omitempty"`
	Filters      []Filter      `json:"filters,omitempty"`
	GroupBy      []string      `json:"group_by,omitempty"`
	Having       []Filter      `json:"having,omitempty"` // on aggregations and what is grouped by
	OrderBy      []OrderBy     `json:"order_by,omitempty"`
	Limit        int           `json:"limit,omitempty"`
	Offset       int           `json:"offset,omitempty"`
	// Cursor is that of the page before, "" for the first page; see Pages.
	Cursor     *string     `json:"cursor,omitempty"`
	TimeRange  *TimeRange  `json:"time_range,omitempty"`
	TimeBucket *TimeBucket `json:"time_bucket,omitempty"`
	// Compare is "previous", "previous_year" or how long before a period is, such as
	// "1mo", over which each aggregation is computed as well.
	Compare string `json:"compare,omitempty"`
}

// Aggregation is an aggregated output; Column is empty for the count of rows and for
// a ratio.
type Aggregation struct {
	Fn     string    `json:"fn"`
	Column string    `json:"column,omitempty"`
	By     string    `json:"by,omitempty"` // of arg_max and arg_min
	Alias  string    `json:"alias,omitempty"`
	Params []float64 `json:"params,omitempty"`
	// Where are conditions on the rows that it sees.
	Where []Filter `json:"where,omitempty"`
	// Numerator and Denominator are those of a ratio, Scale what it is multiplied by;
	// 0 is 1.
	Numerator   *Aggregation `json:"numerator,omitempty"`
	Denominator *Aggregation `json:"denominator,omitempty"`
	Scale       float64      `json:"scale,omitempty"`
}

// Filter is a condition, or a group of some: one of Column, And, Or and Not. Column
// is a column, or a part of one such as attrs.key, tags[1] or payload.user.id. Value
// is nil for is_null and is_not_null, two values for between and not_between, a slice
// for in, not_in, contains_any and contains_all.
type Filter struct {
	Column string   `json:"column,omitempty"`
	Op     string   `json:"op,omitempty"`
	Value  any      `json:"value,omitempty"`
	And    []Filter `json:"and,omitempty"`
	Or     []Filter `json:"or,omitempty"`
	Not    *Filter  `json:"not,omitempty"`
}

// OrderBy orders by an output or a column; Dir is "asc" or "desc".
type OrderBy struct {
	Column string `json:"column"`
	Dir    string `json:"dir,omitempty"`
}

// TimeRange bounds a column of times: RFC 3339, days such as "2026-06-01", lengths
// of time back from now such as "24h" or "-1mo", or words such as "today".
type TimeRange struct {
	Column string `json:"column"`
	Since  string `json:"since,omitempty"`
	Until  string `json:"until,omitempty"`
	// TimeZone is the IANA name of the zone of days and months; "" is UTC.
	TimeZone string `json:"time_zone,omitempty"`
}

// TimeBucket is the start of each row's interval, such as "5m", "1d" or "1mo".
type TimeBucket struct {
	Column string `json:"column"`
	Every  string `json:"every"`
	Alias  string `json:"alias,omitempty"`
	// TimeZone is the IANA name of the zone in which intervals begin; "" is UTC.
	TimeZone string `json:"time_zone,omitempty"`
	// Fill makes rows of the intervals that are empty.
	Fill bool `json:"fill,omitempty"`
}

// Snapshot is the answer of a query, and where the table's stream goes on from it.
type Snapshot[R any] struct {
	Rows []R
	// Position is for FromID: every later row comes on the stream.
	Position string
	// Exact says that no row can be in both.
	Exact bool
}

// Totalled is the answer of a grouped query with the aggregations over all groups.
type Totalled[R any] struct {
	Rows []R `json:"rows"`
	// Totals hold null for what is grouped by.
	Totals R `json:"totals"`
}

// QueryTotals is Query that asks for the totals of a grouped query, too.
func QueryTotals[R any](ctx context.Context, c *Client, table string, document Document) (Totalled[R], error) {
	var t Totalled[R]
	q, err := queryCall(table, struct {
		Document
		Totals bool `json:"totals"`
	}{document, true}, "application/json")
	if err != nil {
		return t, err
	}
	body, _, err := c.do(ctx, q)
	if err != nil {
		return t, err
	}
	if err := decode(body, &t); err != nil {
		return t, invalidResponse("its rows and totals do not decode", err)
	}
	return t, nil
}

// Query runs a document over a table and returns its rows. A query changes
// nothing, so it is repeated. Numbers that are decoded into an any are json.Number,
// with every digit.
func Query[R any](ctx context.Context, c *Client, table string, document Document) ([]R, error) {
	q, err := queryCall(table, document, "application/json")
	if err != nil {
		return nil, err
	}
	body, _, err := c.do(ctx, q)
	if err != nil {
		return nil, err
	}
	return rowsOf[R](body)
}

// QuerySnapshot is Query that says where a stream of the table goes on.
func QuerySnapshot[R any](ctx context.Context, c *Client, table string, document Document) (Snapshot[R], error) {
	q, err := queryCall(table, document, "application/json")
	if err != nil {
		return Snapshot[R]{}, err
	}
	q.query.Set("position", "1")
	body, header, err := c.do(ctx, q)
	if err != nil {
		return Snapshot[R]{}, err
	}
	s := Snapshot[R]{Position: header.Get("X-Stream-Position"), Exact: header.Get("X-Stream-Join") == "exact"}
	if s.Position == "" {
		return s, invalidResponse("it carries no X-Stream-Position", nil)
	}
	s.Rows, err = rowsOf[R](body)
	return s, err
}

// Rows runs a document and yields its rows as they arrive, without holding all of
// them. An error is the last thing it yields; nothing is repeated once it began.
func Rows[R any](ctx context.Context, c *Client, table string, document Document) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		var none R
		q, err := queryCall(table, document, "application/x-ndjson")
		if err != nil {
			yield(none, err)
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		response, failure := c.open(ctx, q)
		if failure != nil {
			yield(none, failure)
			return
		}
		defer func() { _ = response.Body.Close() }()
		lines := bufio.NewReader(response.Body)
		for {
			line, err := lines.ReadBytes('\n')
			if line = bytes.TrimSpace(line); len(line) > 0 {
				row, failure := lineOf[R](line)
				if !yield(row, failure) || failure != nil {
					return
				}
			}
			switch {
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				yield(none, failed(ctx, err))
				return
			}
		}
	}
}

// A Format is one in which Export answers.
type Format string

// The formats.
const (
	FormatCSV     Format = "text/csv"
	FormatTSV     Format = "text/tab-separated-values"
	FormatNDJSON  Format = "application/x-ndjson"
	FormatArrow   Format = "application/vnd.apache.arrow.stream"
	FormatParquet Format = "application/vnd.apache.parquet"
)

// Export runs a document and returns its answer in a format.
func Export(ctx context.Context, c *Client, table string, document Document, format Format) ([]byte, error) {
	q, err := queryCall(table, document, string(format))
	if err != nil {
		return nil, err
	}
	body, _, err := c.do(ctx, q)
	if err != nil {
		return nil, err
	}
	if code := ending(body, format); code != "" {
		return nil, &Error{Code: code, Message: "the server could not finish its answer", Status: http.StatusOK}
	}
	return body, nil
}

var endings = map[Format]*regexp.Regexp{
	FormatCSV:    regexp.MustCompile(`^\$error,([a-z_]+(?:\.[a-z_]+)?),(?:"(?:[^"]|"")*"|[^",\n]*)\n$`),
	FormatTSV:    regexp.MustCompile(`^\$error\t([a-z_]+(?:\.[a-z_]+)?)\t[^\t\n]*\n$`),
	FormatNDJSON: regexp.MustCompile(`^\{"\$error":\{.*?"code":"([a-z_]+(?:\.[a-z_]+)?)".*\}\}\n$`),
}

// ending is the code of the last record with which the server ends an answer that it
// cannot finish; "" for a whole one.
func ending(body []byte, format Format) string {
	mark := "$error"
	if format == FormatNDJSON {
		mark = `{"$error":`
	}
	at := bytes.LastIndex(body, []byte(mark))
	if at < 0 || at > 0 && body[at-1] != '\n' || endings[format] == nil {
		return ""
	}
	if found := endings[format].FindSubmatch(body[at:]); found != nil {
		return string(found[1])
	}
	return ""
}

// lineOf reads a row, or the record with which the server ends an answer that it
// cannot finish.
func lineOf[R any](line []byte) (row R, err error) {
	var end struct {
		Error *struct {
			Code    string `json:"code"`
			Message string `json:"error"`
		} `json:"$error"`
	}
	if bytes.HasPrefix(line, []byte(`{"$error"`)) && json.Unmarshal(line, &end) == nil && end.Error != nil {
		return row, &Error{Code: end.Error.Code, Message: end.Error.Message, Status: http.StatusOK}
	}
	if err := decode(line, &row); err != nil {
		return row, invalidResponse("a row does not decode", err)
	}
	return row, nil
}

// Pipe runs a named pipe and returns its rows; params is a struct or a map, nil for
// none. A pipe may write, so it is repeated only when nothing was done.
func Pipe[R any](ctx context.Context, c *Client, name string, params any) ([]R, error) {
	if params == nil {
		params = struct{}{}
	}
	sent, err := marshal(params)
	if err != nil {
		return nil, &Error{Code: CodeInvalidOption, Message: "the parameters have no JSON form: " + err.Error(), cause: err}
	}
	body, _, err := c.do(ctx, call{
		method: http.MethodPost, path: "/v1/pipes/" + url.PathEscape(name), query: url.Values{}, body: sent,
		header: http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}},
	})
	if err != nil {
		return nil, err
	}
	return rowsOf[R](body)
}

func queryCall(table string, document any, accept string) (call, error) {
	body, err := marshal(document)
	if err != nil {
		return call{}, &Error{Code: CodeInvalidOption, Message: "the document has no JSON form: " + err.Error(), cause: err}
	}
	return call{
		method: http.MethodPost, path: "/v1/query", query: url.Values{"table": {table}}, body: body, safe: true,
		header: http.Header{"Content-Type": {"application/json"}, "Accept": {accept}},
	}, nil
}

func rowsOf[R any](body []byte) ([]R, error) {
	rows := []R{}
	if err := decode(body, &rows); err != nil {
		return nil, invalidResponse("its rows do not decode", err)
	}
	return rows, nil
}

// decode keeps every digit of a number that no type of the caller's takes.
func decode(text []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(to); err != nil {
		return fmt.Errorf("decode %d bytes: %w", len(text), err)
	}
	return nil
}
