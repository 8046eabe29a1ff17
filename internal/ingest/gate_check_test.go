package ingest_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/ingest/ingesttest"
	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/schema"
)

func checkGrant(t *testing.T, check string) *policy.InsertGrant {
	t.Helper()
	p, faults, _ := policy.Compile(&policy.Document{Tables: map[string]policy.TableDocument{
		policy.AllTables: {"writer": {Insert: &policy.InsertDocument{Check: json.RawMessage(check)}}},
	}}, []string{"writer"})
	require.Empty(t, faults)
	g, err := p.Insert("writer", "any")
	require.NoError(t, err)
	return g
}

func TestGateHoldsRecordsToTheChecks(t *testing.T) {
	q := &queue{}
	g := ingest.NewGate(ingest.GateOptions{Broker: q})
	r := ingesttest.Request(ingesttest.Pages(), record.NDJSON, `{"event_id":"1"}`+"\n"+`{"event_id":"2","page":"/a"}`+"\n"+`{"event_id":"3","page":"/b"}`)
	r.Grant, r.Claims = checkGrant(t, `{"page":{"_eq":"/{{ jwt.sub }}"}}`), map[string]any{"sub": "a"}
	result, err := g.Ingest(t.Context(), r)
	require.NoError(t, err)
	assert.Equal(t, [2]int{2, 1}, [2]int{result.Succeeded, result.Failed})
	assert.Equal(t, record.CodeCheckFailed, result.Results[0].Code)
	assert.Equal(t, []string{`{"event_id":"1","page":"/a"}`, `{"event_id":"2","page":"/a"}`}, flat(q.rows(t)))

	q.stored = nil
	r.Claims = nil
	result, err = g.Ingest(t.Context(), r)
	require.NoError(t, err)
	assert.Equal(t, 3, result.Failed, "a claim that is missing refuses every record")
	assert.Empty(t, q.stored)
}

// A column that a check speaks of may have been added a moment ago, and one
// that was there may be gone: the table that is read against is the one that
// the checks are of.
func TestGateBindsChecksToTheTableAsItIsNow(t *testing.T) {
	q := &queue{}
	g := ingest.NewGate(ingest.GateOptions{Broker: q})
	r := ingesttest.Request(ingesttest.Pages(), record.NDJSON, `{"event_id":"1","page":"/","ref":"x"}`+"\n"+`{"event_id":"2","page":"/","ref":"y"}`)
	r.Grant = checkGrant(t, `{"ref":{"_in":["x"]}}`)
	result, err := g.Ingest(t.Context(), r)
	require.NoError(t, err)
	assert.Equal(t, 2, result.Failed, "the table lacks the column")
	r.Refresh = func(context.Context) *schema.Table { return ingesttest.WithRef() }
	result, err = g.Ingest(t.Context(), r)
	require.NoError(t, err)
	assert.Equal(t, [2]int{1, 1}, [2]int{result.Succeeded, result.Failed})
	assert.Equal(t, record.CodeCheckFailed, result.Results[0].Code)
}
