package wavehouse

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Bounds of one request. A row over the bytes travels alone.
const (
	maxRows  = 10_000
	maxBytes = 4 << 20
)

// InsertOption sets one thing of an Insert.
type InsertOption func(*insertOptions)

type insertOptions struct {
	key        string
	idempotent bool
	wait       time.Duration
}

// IdempotencyKey names the insert, so that requests are repeated even when it is
// not known whether they were stored: the server stores them once. From the second
// request on a number is added to it.
func IdempotencyKey(key string) InsertOption { return func(o *insertOptions) { o.key = key } }

// Idempotent says that the rows carry ids by which the table drops duplicates, so
// that requests may be repeated.
func Idempotent() InsertOption { return func(o *insertOptions) { o.idempotent = true } }

// WaitInserted waits up to d, at most a minute, until the rows are in ClickHouse.
// Without it an insert returns once they are durable, which is sooner.
func WaitInserted(d time.Duration) InsertOption { return func(o *insertOptions) { o.wait = d } }

// InsertResult says what became of the rows: Total is the sum of the other counts.
type InsertResult struct {
	Total, Succeeded, Failed, Duplicates, DeadLettered int
	// Inserted says, with WaitInserted, that all that succeeded were in ClickHouse
	// in time.
	Inserted bool
	// Failures has an entry for each failed row, in order.
	Failures []RowFailure
}

// RowFailure is why one row was not stored.
type RowFailure struct {
	// Index is the row's in the caller's slice.
	Index   int
	Code    string
	Message string
	Column  string
}

// InsertError is the failure of an insert: a request failed, or every row was
// refused. It unwraps to the *Error.
type InsertError struct {
	Result InsertResult
	// Confirmed is the index of the first row without an outcome in Result.
	Confirmed int
	Err       *Error
}

// Error returns the failure's text.
func (e *InsertError) Error() string { return e.Err.Error() }

// Unwrap returns the failure.
func (e *InsertError) Unwrap() error { return e.Err }

// Insert posts rows, each a struct or a map, in requests of at most 10,000 rows and
// 4 MiB, one after another. Refused rows are named in the result; the error is an
// *InsertError. A row that JSON would change, as text that is not UTF-8, is refused
// before it is sent; a []byte travels in base64, as encoding/json has it.
func Insert[R any](ctx context.Context, c *Client, table string, rows []R, options ...InsertOption) (InsertResult, error) {
	var o insertOptions
	for _, option := range options {
		option(&o)
	}
	result := InsertResult{Inserted: o.wait > 0}
	confirmed, number := 0, 0
	var batch lines
	flush := func(end int) *Error {
		if len(batch.indexes) > 0 {
			number++
			if err := c.post(ctx, table, batch, o, number, &result); err != nil {
				return err
			}
		}
		batch, confirmed = lines{}, end
		return nil
	}
	for i := range rows {
		line, err := marshal(rows[i])
		if err != nil || len(line) == 0 || line[0] != '{' {
			result.fail(RowFailure{Index: i, Code: CodeInvalidRow, Message: unreadable(err)})
			continue
		}
		if !batch.fits(line) {
			if err := flush(i); err != nil {
				return result, &InsertError{result, confirmed, err}
			}
		}
		batch.add(i, line)
	}
	if err := flush(len(rows)); err != nil {
		return result, &InsertError{result, confirmed, err}
	}
	if result.Total > 0 && result.Failed == result.Total {
		first := result.Failures[0]
		return result, &InsertError{result, confirmed, &Error{Code: first.Code, Message: fmt.Sprintf("all %d rows were refused, the first: %s", result.Total, first.Message)}}
	}
	return result, nil
}

func unreadable(err error) string {
	if err != nil {
		return err.Error()
	}
	return "a row is an object"
}

func (r *InsertResult) fail(f RowFailure) {
	r.Total++
	r.Failed++
	r.Failures = append(r.Failures, f)
}

// lines are the rows of one request.
type lines struct {
	body    bytes.Buffer
	indexes []int
}

func (l *lines) fits(line []byte) bool {
	return len(l.indexes) == 0 || len(l.indexes) < maxRows && l.body.Len()+len(line) < maxBytes
}

func (l *lines) add(index int, line []byte) {
	l.indexes = append(l.indexes, index)
	l.body.Write(line)
	l.body.WriteByte('\n')
}

// verdicts are the server's answer.
type verdicts struct {
	Total        int  `json:"total"`
	Succeeded    int  `json:"succeeded"`
	Failed       int  `json:"failed"`
	Duplicates   int  `json:"duplicates"`
	DeadLettered int  `json:"dead_lettered"`
	Inserted     bool `json:"inserted"`
	Results      []struct {
		Index  int    `json:"index"`
		Error  string `json:"error"`
		Code   string `json:"code"`
		Column string `json:"column"`
	} `json:"results"`
}

func (c *Client) post(ctx context.Context, table string, batch lines, o insertOptions, number int, result *InsertResult) *Error {
	q := call{
		method: http.MethodPost, path: "/v1/ingest", query: url.Values{"table": {table}}, body: batch.body.Bytes(),
		header: http.Header{"Content-Type": {"application/x-ndjson"}, "Accept": {"application/json"}},
		safe:   o.key != "" || o.idempotent, extra: o.wait,
	}
	if o.wait > 0 {
		q.query.Set("wait", "inserted")
		q.query.Set("timeout", strconv.FormatInt(o.wait.Milliseconds(), 10)+"ms")
	}
	if o.key != "" {
		key := o.key
		if number > 1 {
			key += "-" + strconv.Itoa(number)
		}
		q.header.Set("Idempotency-Key", key)
	}
	body, _, err := c.do(ctx, q)
	if err != nil {
		var failure *Error
		if !asError(err, &failure) {
			failure = &Error{Code: CodeNetwork, Message: err.Error(), cause: err}
		}
		return failure
	}
	var v verdicts
	if err := json.Unmarshal(body, &v); err != nil {
		return invalidResponse("an ingest answers counts and results", err)
	}
	if counted := v.Succeeded + v.Failed + v.Duplicates + v.DeadLettered; counted != len(batch.indexes) {
		return invalidResponse(fmt.Sprintf("it accounts for %d of %d rows", counted, len(batch.indexes)), nil)
	}
	result.Total += len(batch.indexes)
	result.Succeeded += v.Succeeded
	result.Failed += v.Failed
	result.Duplicates += v.Duplicates
	result.DeadLettered += v.DeadLettered
	result.Inserted = result.Inserted && v.Inserted
	for _, r := range v.Results {
		if r.Error != "" && r.Index >= 1 && r.Index <= len(batch.indexes) {
			result.Failures = append(result.Failures, RowFailure{batch.indexes[r.Index-1], r.Code, r.Error, r.Column})
		}
	}
	return nil
}
