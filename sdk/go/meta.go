package wavehouse

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Meta is what the server says of an answer to a query or a pipe. What it costs and
// how fresh it is, the server tells to callers who may see all rows that were read,
// or whose role has show_cost; it is zero for others.
type Meta struct {
	// RequestID is what the server's log calls the request.
	RequestID string
	// Cached is set when the answer came from the server's cache.
	Cached bool
	// Truncated names the bound that cut the answer; "" when it is whole.
	Truncated string
	// QueryID is what ClickHouse calls the statement.
	QueryID string
	// RowsRead and BytesRead are what ClickHouse read when it began to answer; Known
	// says that the server told them.
	RowsRead, BytesRead uint64
	Known               bool
	// DataThrough is a time: every row that was accepted before it is in the tables
	// that were read. It is zero when that is not known.
	DataThrough time.Time
	// Timing is how long each part took, by its name: queue, clickhouse, send.
	Timing map[string]time.Duration
}

type metaKey struct{}

// WithMeta returns a context with which a query or a pipe fills in m, once it is
// answered.
func WithMeta(ctx context.Context, m *Meta) context.Context {
	return context.WithValue(ctx, metaKey{}, m)
}

// noteMeta fills in the Meta of a call's context.
func noteMeta(ctx context.Context, header http.Header) {
	if m, ok := ctx.Value(metaKey{}).(*Meta); ok && m != nil {
		*m = metaOf(header)
	}
}

func metaOf(header http.Header) Meta {
	m := Meta{
		RequestID: header.Get("X-Request-Id"), Cached: header.Get("X-Cache") == "HIT",
		Truncated: header.Get("X-Result-Truncated"), QueryID: header.Get("X-Query-Id"),
	}
	var err error
	if m.RowsRead, err = strconv.ParseUint(header.Get("X-Rows-Read"), 10, 64); err == nil {
		m.BytesRead, err = strconv.ParseUint(header.Get("X-Bytes-Read"), 10, 64)
	}
	m.Known = err == nil
	if at, err := time.Parse(time.RFC3339, header.Get("X-Data-Through")); err == nil {
		m.DataThrough = at
	}
	for part := range strings.SplitSeq(header.Get("Server-Timing"), ",") {
		name, took, ok := strings.Cut(strings.TrimSpace(part), ";dur=")
		if ms, err := strconv.ParseFloat(took, 64); ok && err == nil {
			if m.Timing == nil {
				m.Timing = map[string]time.Duration{}
			}
			m.Timing[name] = time.Duration(ms * float64(time.Millisecond))
		}
	}
	return m
}
