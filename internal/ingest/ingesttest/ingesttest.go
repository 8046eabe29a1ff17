// Package ingesttest has the table, the bodies and the rows of tests that send
// records through the gate.
package ingesttest

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/schema"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Tenants of the tests; Birch is the one that Request sends for.
const (
	Birch tenant.ID = "birch"
	Cedar tenant.ID = "cedar"
)

// Pages is the table that most tests write to.
func Pages() *schema.Table {
	columns := []record.Column{
		{Name: "event_id", Type: "String", Position: 1},
		{Name: "page", Type: "String", Position: 2},
		{Name: "org", Type: "String", Position: 3, DefaultKind: record.DefaultExpression, DefaultExpression: "''"},
		{Name: "secret", Type: "String", Position: 4, DefaultKind: record.DefaultExpression, DefaultExpression: "''"},
		{Name: "n", Type: "Int64", Position: 5, DefaultKind: record.DefaultExpression, DefaultExpression: "0"},
		{Name: "ts", Type: "DateTime64(3, 'UTC')", Position: 6, DefaultKind: record.DefaultExpression, DefaultExpression: "now64(3)"},
	}
	return &schema.Table{Name: "pages", Engine: "MergeTree", Columns: columns, Record: record.Compile("pages", columns, time.UTC)}
}

// WithRef is Pages after a column was added to it.
func WithRef() *schema.Table {
	p := Pages()
	columns := append(p.Columns, record.Column{Name: "ref", Type: "String", Position: 7})
	return &schema.Table{Name: "pages", Columns: columns, Record: record.Compile("pages", columns, time.UTC)}
}

// Events is an event table of eleven columns; a row is about 270 bytes of JSON.
func Events() *schema.Table {
	var columns []record.Column
	for i, c := range [][2]string{
		{"id", "UUID"}, {"ts", "DateTime64(3, 'UTC')"}, {"user_id", "UInt64"}, {"page", "String"},
		{"referrer", "Nullable(String)"}, {"country", "LowCardinality(String)"}, {"device", "LowCardinality(String)"},
		{"duration_ms", "UInt32"}, {"score", "Float64"}, {"status", "UInt16"}, {"session", "String"},
	} {
		columns = append(columns, record.Column{Name: c[0], Type: c[1], Position: i + 1})
	}
	return &schema.Table{Name: "events", Columns: columns, Record: record.Compile("events", columns, time.UTC)}
}

// EventBody is so many records of Events.
func EventBody(rows int) string {
	var b strings.Builder
	for i := range rows {
		fmt.Fprintf(&b, `{"id":"0189d7a2-5c1e-7c3a-9d2b-%012x","ts":"2026-03-04T05:06:07.%03dZ","user_id":%d,"page":"/products/%d/details","referrer":null,"country":"DE","device":"mobile","duration_ms":%d,"score":%d.25,"status":200,"session":"s-%08x-%08x"}`+"\n",
			i, i%1000, 1_000_000+i, i%500, i%90_000, i%100, i, i*7)
	}
	return b.String()
}

// Request is a body that an operator sends for Birch.
func Request(table *schema.Table, format record.InputFormat, body string) ingest.Request {
	return ingest.Request{
		Tenant: Birch, Table: table, Grant: policy.OperatorInsert(), Format: format, Body: []byte(body),
	}
}

// Line is a record of Pages.
func Line(id string) string { return fmt.Sprintf(`{"event_id":%q,"page":"/"}`, id) }

// Lines are the records from to to-1 as they are sent.
func Lines(from, to int) string {
	return strings.Join(Rows(from, to), "\n") + "\n"
}

// Rows are the records of Lines as they are stored.
func Rows(from, to int) []string {
	var want []string
	for i := from; i < to; i++ {
		want = append(want, Line(fmt.Sprint(i)))
	}
	return want
}

// ChunkRows renders the rows of a chunk as JSON objects.
func ChunkRows(t testing.TB, c mq.Chunk) []string {
	t.Helper()
	layout, err := record.ParseLayout(c.Columns, time.UTC)
	require.NoError(t, err)
	ends, err := layout.Ends(nil, c.Body, c.Rows)
	require.NoError(t, err)
	var rows []string
	start := 0
	for _, end := range ends {
		row, err := layout.AppendObject(nil, c.Body[start:end], nil, record.RenderOptions{})
		require.NoError(t, err)
		rows = append(rows, string(row))
		start = end
	}
	return rows
}

// Spread runs op b.N times on n goroutines, each for so many rows.
func Spread(b *testing.B, n, rows int, op func() error) {
	b.ReportAllocs()
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	done := make(chan error, n)
	for range n {
		go func() {
			for left.Add(-1) >= 0 {
				if err := op(); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range n {
		require.NoError(b, <-done)
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N*rows)/b.Elapsed().Seconds(), "rows/s")
}
