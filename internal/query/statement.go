package query

import (
	"time"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
)

// Format names how ClickHouse renders the answer.
type Format uint8

// The formats of an answer.
const (
	FormatJSON    Format = iota // one JSON array of row objects
	FormatNDJSON                // one row object a line
	FormatCSV                   // with a header line
	FormatTSV                   // with a header line
	FormatArrow                 // an Arrow stream
	FormatParquet               // a Parquet file
)

// Statement is a query ready to be sent. It holds no secret.
type Statement struct {
	SQL string
	// Params are the typed parameters by name, escaped for the HTTP interface.
	Params   map[string]string
	Settings map[string]string
	External []clickhouse.ExternalTable
	// Cap is how many rows the answer may have.
	Cap Cap
	// Totals says that the answer is of events: a line {"row":{…}} for each row, then
	// {"totals":{…}}. Lines that begin otherwise are none of the answer.
	Totals bool

	builder *builder // what CountSQL and Page need
}

// Options are what a statement depends on beside the document, the table and
// the grant.
type Options struct {
	// Now is the time that relative bounds count back from.
	Now time.Time
	// BucketSeconds truncates relative bounds, so that equal queries within a
	// bucket are the same statement. Zero or less is one second.
	BucketSeconds int
	// DefaultMaxRows, the tenant's, caps every answer; zero or less is no cap.
	DefaultMaxRows int
	// Zone is the server's time zone; nil is UTC.
	Zone *time.Location
	// Ahead asks for one row more than the cap lets the answer have: who sends it
	// leaves that one out, and knows that the cap cut it.
	Ahead bool
	// Format is how the answer is rendered.
	Format Format
	// Cursors seal where a page ends, for the tenant; nil knows no pages.
	Cursors *Cursors
	Tenant  string
	// MaxResultBytes caps the answer as it is held in ClickHouse's memory; zero
	// is DefaultMaxResultBytes.
	MaxResultBytes int64
}
