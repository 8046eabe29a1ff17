package ingest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/chunk"
	"github.com/wavehouse/wavehouse/internal/dedupe"
	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/ingest/ingesttest"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
)

// away is a store of ids that nobody can reach.
type away struct{ dedupe.Reserver }

func (away) Reserve(context.Context, dedupe.Scope, dedupe.Owner, []string) ([]dedupe.Reservation, error) {
	return nil, fmt.Errorf("%w: it is away", dedupe.ErrUnavailable)
}

func deferring(q *memory) *ingest.Gate {
	return ingest.NewGate(ingest.GateOptions{Broker: q, Dedupe: away{}, Lease: testLease})
}

func deferred(body string, yes bool) ingest.Request {
	q := ingesttest.Request(ingesttest.Pages(), record.JSON, body)
	q.IDs = &ingest.IDs{Field: "event_id", Defer: yes}
	return q
}

const twoAndARepeat = `[{"event_id":"a","page":"/1"},{"event_id":"b","page":"/2"},{"event_id":"a","page":"/3"},{"event_id":"","page":"/4"}]`

func TestRecordsAreDeferredWhileTheStoreOfIdsIsAway(t *testing.T) {
	q := &memory{}
	g := deferring(q)
	_, err := g.Ingest(t.Context(), deferred(twoAndARepeat, false))
	var whole *ingest.Error
	require.ErrorAs(t, err, &whole)
	assert.Equal(t, ingest.CodeDedupeDown, whole.Code)

	for range 2 {
		result, err := g.Ingest(t.Context(), deferred(twoAndARepeat, true))
		require.NoError(t, err)
		assert.Equal(t, []int{3, 1, 0}, []int{result.Succeeded, result.Duplicates, result.Failed})
	}
	var marked []mq.Chunk
	for _, c := range q.stored {
		if c.IDs > 0 {
			marked = append(marked, c)
		}
	}
	require.Len(t, marked, 1, "the queue knows the second by its ids")
	opened, err := chunk.NewOpener().Open(marked[0])
	require.NoError(t, err)
	assert.Equal(t, []string{dedupe.RecordID(nil, []byte("\x01a")), dedupe.RecordID(nil, []byte("\x01b"))}, opened.IDs)
	require.NoError(t, opened.Split())
	row, err := opened.Layout.AppendObject(nil, opened.Slice(1, 2), nil, record.RenderOptions{})
	require.NoError(t, err)
	assert.JSONEq(t, `{"event_id":"b","page":"/2"}`, string(row))
}

// A key's answer is kept by the store alone.
func TestARequestWithAKeyIsNotDeferred(t *testing.T) {
	q := &memory{}
	r := deferred(twoAndARepeat, true)
	r.Key = "key"
	_, err := deferring(q).Ingest(t.Context(), r)
	var whole *ingest.Error
	require.ErrorAs(t, err, &whole)
	assert.Equal(t, ingest.CodeDedupeDown, whole.Code)
	assert.Equal(t, 5*time.Second, whole.RetryAfter)
	assert.Empty(t, q.stored)
}
