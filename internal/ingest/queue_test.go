package ingest_test

import (
	"context"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/ingest/ingesttest"
	"github.com/wavehouse/wavehouse/internal/mq"
)

const (
	birch = ingesttest.Birch
	cedar = ingesttest.Cedar
)

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
	return mq.NewPosition(1, uint64(len(q.stored))), nil
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
		all[i] = ingesttest.ChunkRows(t, c)
	}
	return all
}

func flat(chunks [][]string) []string {
	var all []string
	for _, c := range chunks {
		all = append(all, c...)
	}
	return all
}

func array(from, to int) string {
	return "[" + strings.ReplaceAll(strings.TrimSpace(ingesttest.Lines(from, to)), "\n", ",") + "]"
}

// later runs f and gives its outcome when it ends.
type outcome struct {
	result ingest.Result
	err    error
}

func later(ctx context.Context, g *ingest.Gate, r ingest.Request) <-chan outcome {
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
