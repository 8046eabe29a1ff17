package clickhouse

import (
	"context"
	"io"
	"time"
)

// Request is one statement for the HTTP interface.
type Request struct {
	SQL string
	// Body is the data of an INSERT, read once, never rewound.
	Body io.Reader
	// BodyBytes is the length of Body, 0 when it is not known.
	BodyBytes int64
	// Rows is how many rows an INSERT has, for Insert to see them written.
	Rows int
	// Repeat says that the rows may be written already, by an INSERT before.
	Repeat bool
	// Params are the statement's parameters by name, without "param_". The
	// values are sent as they are: see EscapeParam.
	Params map[string]string
	// Settings travel with the statement. They win over those that ReadOnly sets.
	Settings map[string]string
	// External are temporary tables the statement may read by name.
	External []ExternalTable
	// ReadOnly lets the statement read only, cancels it at the server when its
	// reader goes away, and allows one repeat when a kept connection turns out
	// to be closed.
	ReadOnly bool
	// MaxResponseBytes bounds the answer; beyond it reading fails with
	// ClassTooLarge. Zero is no bound.
	MaxResponseBytes int64
	// question marks one of the server's own. It only reads, and no settings go
	// with it, which a user may not be allowed to change.
	question bool
}

// repeatable says whether the statement may be sent again when a kept connection
// turns out to be closed.
func (q Request) repeatable() bool { return q.ReadOnly || q.question }

// ExternalTable is data sent along with a statement.
type ExternalTable struct {
	Name      string // an identifier of letters, digits and _
	Structure string // columns as in CREATE TABLE: "v UInt64"
	Format    string // a ClickHouse input format: "RowBinary"
	Data      []byte
	From      io.Reader // instead of Data, read once
}

// Response is the answer of a statement. The caller closes Body, which gives
// the connection back. A failure that ClickHouse meets after it has begun to
// answer is an *Error from Body.Read, never a shorter answer.
type Response struct {
	Body        io.ReadCloser
	ContentType string
	// Format is the output format's name, as the statement or default_format
	// spells it; "" when ClickHouse did not say.
	Format  string
	Summary Summary
	// QueryID is what ClickHouse calls the statement.
	QueryID string
	// Waited is how long the statement waited for a connection, and Took how long
	// ClickHouse then took to begin its answer.
	Waited, Took time.Duration

	body *body // Body, as what it is
}

// ReadAll reads the answer to its end, in a slice of its own. A failure that
// ClickHouse meets on the way is an *Error.
func (r *Response) ReadAll() ([]byte, error) {
	all, _, err := r.ReadUpTo(func(int64) bool { return true })
	return all, err
}

// ReadUpTo is ReadAll that asks hold before it takes more than a buffer: for so
// many bytes in all, in place of those that it asked for before. An answer for
// which hold had no room is not whole: head is its beginning, and Body has the
// rest.
func (r *Response) ReadUpTo(hold func(bytes int64) bool) (head []byte, whole bool, err error) {
	return r.body.readUpTo(hold)
}

// Linger asks for leave to read the answer at the pace of somebody else. The
// connections on which that is done are fewer than the pool has, so that some are
// left for answers that are read at once. It waits until ctx ends, whose cause is
// the error.
func (r *Response) Linger(ctx context.Context) error {
	b := r.body
	of := b.pool.core.lingering
	if err := of.acquire(ctx); err != nil {
		return err
	}
	done := b.done
	b.done = func() { of.release(); done() }
	return nil
}

// Summary is what ClickHouse says a statement has done so far when its answer
// begins; for an INSERT that is all of it.
type Summary struct {
	ReadRows, ReadBytes       uint64
	WrittenRows, WrittenBytes uint64
	ResultRows, ResultBytes   uint64
}
