package ingest_test

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
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

const (
	birch tenant.ID = "birch"
	cedar tenant.ID = "cedar"
)

// pages is the table of the cases.
func pages() *schema.Table {
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

// queue is a publisher whose publishes a test can hold and fail.
type queue struct {
	// fail decides about the n-th publish, from 1; nil stores all.
	fail func(n int, c mq.Chunk) error
	// hold, when set, keeps each publish until it can receive.
	hold chan struct{}

	mu      sync.Mutex
	started int
	stored  []mq.Chunk
	stack   string
}

func (q *queue) Publish(_ context.Context, c mq.Chunk) (mq.Position, error) {
	q.mu.Lock()
	q.started++
	n := q.started
	q.stack = string(debug.Stack())
	q.mu.Unlock()
	if q.hold != nil {
		<-q.hold
	}
	if q.fail != nil {
		if err := q.fail(n, c); err != nil {
			return mq.Position{}, err
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stored = append(q.stored, c)
	return mq.Position{Epoch: 1, Seq: uint64(len(q.stored))}, nil
}

func (q *queue) count() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.started
}

// rows returns the stored rows as JSON objects, chunk by chunk.
func (q *queue) rows(t testing.TB) [][]string {
	t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	all := make([][]string, len(q.stored))
	for i, c := range q.stored {
		all[i] = chunkRows(t, c)
	}
	return all
}

func chunkRows(t testing.TB, c mq.Chunk) []string {
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

func flat(chunks [][]string) []string {
	var all []string
	for _, c := range chunks {
		all = append(all, c...)
	}
	return all
}

func request(table *schema.Table, format record.InputFormat, body string) ingest.Request {
	return ingest.Request{
		Tenant: birch, Table: table, Grant: policy.OperatorInsert(), Format: format, Body: []byte(body),
	}
}

func idLine(id string) string { return fmt.Sprintf(`{"event_id":%q,"page":"/"}`, id) }

func lines(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		b.WriteString(idLine(fmt.Sprint(i)))
		b.WriteByte('\n')
	}
	return b.String()
}

func array(from, to int) string {
	return "[" + strings.ReplaceAll(strings.TrimSpace(lines(from, to)), "\n", ",") + "]"
}

func wantIDs(from, to int) []string {
	var want []string
	for i := from; i < to; i++ {
		want = append(want, idLine(fmt.Sprint(i)))
	}
	return want
}

// later runs f and gives its outcome when it ends.
type outcome struct {
	result ingest.Result
	err    error
}

func later(g *ingest.Gate, ctx context.Context, r ingest.Request) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		result, err := g.Ingest(ctx, r)
		done <- outcome{result, err}
	}()
	return done
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 90*time.Second, 2*time.Millisecond, what)
}
