package query

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// What may cap the rows of an answer.
const (
	CapLimit  = "limit"                  // the document's own
	CapRole   = "role.max_rows"          // the role's
	CapTenant = "query.default_max_rows" // the tenant's
)

// Cap is how many rows an answer may have at most, and which bound says so; of
// equal ones, the document's and then the role's. By is "" where there is none.
type Cap struct {
	Rows int64
	By   string
}

// capRows sets the least of the document's bound, the role's and the tenant's. A
// document that asks for more than it may have is refused: it would take what it
// gets for all there is.
func (b *builder) capRows() *Error {
	for _, bound := range []Cap{{int64(b.cols.grant.MaxRows()), CapRole}, {int64(b.opts.DefaultMaxRows), CapTenant}} {
		if bound.Rows > 0 && (b.cap.By == "" || bound.Rows < b.cap.Rows) {
			b.cap = bound
		}
	}
	switch limit := b.doc.Limit; {
	case !limit.Set:
	case b.cap.By != "" && limit.N > b.cap.Rows:
		return invalid("limit: %s rows are more than the %d that %s lets an answer have", asked(limit.N), b.cap.Rows, b.cap.By)
	default:
		b.cap = Cap{Rows: limit.N, By: CapLimit}
	}
	return nil
}

// asked spells a limit, which stands for all larger ones when it is the largest.
func asked(n int64) string {
	if n == math.MaxInt64 {
		return fmt.Sprintf("%d or more", n)
	}
	return strconv.FormatInt(n, 10)
}

// limit is the clause that keeps the answer to its cap, or to one row more.
func (b *builder) limit(more bool) string {
	clause := ""
	offset := b.doc.Offset.N
	switch {
	case b.cap.By != "" && more && b.cap.Rows < math.MaxInt64:
		clause = " LIMIT " + strconv.FormatInt(b.cap.Rows+1, 10)
	case b.cap.By != "":
		clause = " LIMIT " + strconv.FormatInt(b.cap.Rows, 10)
	case offset > 0:
		clause = " LIMIT " + strconv.FormatInt(math.MaxInt64, 10)
	}
	if offset > 0 {
		clause += " OFFSET " + strconv.FormatInt(offset, 10)
	}
	return clause + b.skip
}

// CountSQL is the statement that counts the rows of the answer and one more, in
// text: with the same parameters, settings and tables. An answer that cannot be
// cut, or whose end comes too late, is known by it.
func (s *Statement) CountSQL() string {
	var rows strings.Builder
	s.builder.writeRows(&rows)
	return "SELECT count() FROM (" + rows.String() + s.builder.limit(true) + ") FORMAT TabSeparated"
}
