package ingest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/ingest/ingesttest"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/schema"
)

func TestFieldsThatAreTooManyOrTooFew(t *testing.T) {
	q := &queue{}
	g := ingest.NewGate(ingest.GateOptions{Broker: q})
	result, err := g.Ingest(t.Context(), ingesttest.Request(ingesttest.Pages(), record.CSV, "event_id,page,n\nj1,/a,1\nj2,/b,2,extra\nj3,/c\nj4,/d,4\n"))
	require.NoError(t, err)
	assert.Equal(t, []int{4, 2, 2}, []int{result.Total, result.Succeeded, result.Failed})
	assert.Equal(t, 2, result.Results[0].Index)
	assert.Contains(t, result.Results[1].Message, "expected 3 fields and found 2")
	assert.Len(t, flat(q.rows(t)), 2)
}

func TestSemicolonsInCSV(t *testing.T) {
	q := &queue{}
	g := ingest.NewGate(ingest.GateOptions{Broker: q})
	_, err := g.Ingest(t.Context(), ingesttest.Request(ingesttest.Pages(), record.CSV, "event_id;page;n\ni1;/a;2\n"))
	var fault *record.BodyError
	require.ErrorAs(t, err, &fault)
	assert.Equal(t, record.CodeUnknownColumn, fault.Code)
	assert.Zero(t, q.count())
}

// A header line may name a column that was added a moment ago.
func TestHeaderNamesAColumnAddedAMomentAgo(t *testing.T) {
	for _, known := range []bool{true, false} {
		q := &queue{}
		g := ingest.NewGate(ingest.GateOptions{Broker: q})
		asked := 0
		r := ingesttest.Request(ingesttest.Pages(), record.CSV, "event_id,page,ref\n1,/,r\n2,/,s\n")
		r.Refresh = func(context.Context) *schema.Table {
			asked++
			if known {
				return ingesttest.WithRef()
			}
			return nil
		}
		result, err := g.Ingest(t.Context(), r)
		assert.Equal(t, 1, asked)
		if !known {
			require.ErrorContains(t, err, `"ref"`)
			assert.Zero(t, q.count())
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, 2, result.Succeeded)
		assert.Contains(t, flat(q.rows(t))[0], `"ref":"r"`)
	}
}
