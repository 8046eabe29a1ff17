package insert_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/ingest/ingesttest"
	"github.com/wavehouse/wavehouse/internal/insert"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
)

var pagesTopic = mq.Topic{Tenant: birch, Table: "pages"}

// sendAndWait ingests and waits, and returns the indexes, from 1, of records
// that are dead letters. All must be settled.
func (r *rig) sendAndWait(body string) []int {
	r.t.Helper()
	w, err := r.watches.Watch(pagesTopic)
	require.NoError(r.t, err)
	defer w.Close()
	q := ingesttest.Request(ingesttest.Pages(), record.NDJSON, body)
	q.Places = true
	result, err := r.gate.Ingest(r.t.Context(), q)
	require.NoError(r.t, err)
	var chunks []mq.Position
	for _, p := range result.Places {
		chunks = append(chunks, p.Chunk)
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), 90*time.Second)
	defer cancel()
	settled := w.Wait(ctx, chunks)
	require.NoError(r.t, ctx.Err(), "not all is settled")
	var dead []int
	for _, p := range result.Places {
		for _, row := range settled[p.Chunk].Parked {
			if n := row.Row - p.Row; n >= 0 && n < p.Count {
				dead = append(dead, p.First+n)
				assert.Equal(r.t, "469", row.Code)
				assert.Contains(r.t, row.Message, "Constraint")
			}
		}
	}
	return dead
}

func TestWatchTellsWhatBecameOfChunks(t *testing.T) {
	t.Parallel()
	bad := map[string]bool{ingesttest.Line("3"): true, ingesttest.Line("1999"): true}
	s := &sink{name: "ch", fail: refusing(bad)}
	r := newRig(t).start(func(o *insert.WorkerOptions) { o.Pool = pool(s) })
	assert.Equal(t, []int{4, 2000}, r.sendAndWait(ingesttest.Lines(0, 2500)), "over several chunks")
	assert.Empty(t, r.sendAndWait(ingesttest.Lines(4, 5)))
	assert.Len(t, s.rows(), 2499)
}

// Requests that share chunks are told of their own rows.
func TestWatchesOfSharedChunks(t *testing.T) {
	t.Parallel()
	bad := map[string]bool{}
	for i := range 20 {
		bad[ingesttest.Line(fmt.Sprint(i*10))] = true
	}
	s := &sink{name: "ch", fail: refusing(bad)}
	r := newRig(t).start(func(o *insert.WorkerOptions) { o.Pool = pool(s) })
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			assert.Equal(t, []int{1}, r.sendAndWait(ingesttest.Lines(i*10, i*10+10)))
		})
	}
	group.Wait()
	assert.Len(t, s.rows(), 180)
}

func TestWatchThatGivesUp(t *testing.T) {
	t.Parallel()
	s := &sink{name: "ch", fail: func(statement) error { return unreachable() }}
	r := newRig(t).start(func(o *insert.WorkerOptions) { o.Pool = pool(s) })
	w, err := r.watches.Watch(pagesTopic)
	require.NoError(t, err)
	defer w.Close()
	r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 1)))
	tail, err := r.broker.Tail(t.Context(), mq.Topic{Tenant: birch, Table: "pages"})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	assert.Empty(t, w.Wait(ctx, []mq.Position{tail}))
}
