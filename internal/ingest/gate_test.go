package ingest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/ingest/ingesttest"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/schema"
)

func TestGateStoresOneObject(t *testing.T) {
	q := &queue{}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	g := ingest.NewGate(ingest.GateOptions{Broker: q, Now: func() time.Time { return now }})
	r := ingesttest.Request(ingesttest.Pages(), record.JSON, `{"page":"/a","event_id":"x","n":7}`)
	r.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	result, err := g.Ingest(t.Context(), r)
	require.NoError(t, err)
	assert.Equal(t, ingest.Result{Single: true, Total: 1, Succeeded: 1}, result)
	require.Len(t, q.stored, 1)
	c := q.stored[0]
	assert.Equal(t, mq.Topic{Tenant: birch, Table: "pages"}, c.Topic)
	assert.Equal(t, mq.Version, c.Version)
	assert.Equal(t, mq.FormatRowBinary, c.Format)
	assert.Equal(t, 1, c.Rows)
	assert.Equal(t, now, c.Received)
	assert.Equal(t, r.TraceParent, c.TraceParent)
	assert.Equal(t, [][]string{{`{"event_id":"x","page":"/a","n":7}`}}, q.rows(t))
}

func TestGateSingleObjectCarriesItsOwnError(t *testing.T) {
	q := &queue{}
	g := ingest.NewGate(ingest.GateOptions{Broker: q})
	result, err := g.Ingest(t.Context(), ingesttest.Request(ingesttest.Pages(), record.JSON, `{"event_id":"x","page":"/","n":"many"}`))
	require.NoError(t, err)
	assert.True(t, result.Single)
	assert.Equal(t, 1, result.Failed)
	require.Len(t, result.Results, 1)
	assert.Equal(t, record.CodeTypeMismatch, result.Results[0].Code)
	assert.Equal(t, "n", result.Results[0].Column)
	assert.Empty(t, q.stored)
}

// An idle gate adds neither a wait nor a goroutine: the publish runs below the
// caller.
func TestGateLoneRequestPublishesItself(t *testing.T) {
	q := &queue{}
	g := ingest.NewGate(ingest.GateOptions{Broker: q})
	_, err := g.Ingest(t.Context(), ingesttest.Request(ingesttest.Pages(), record.JSON, ingesttest.Line("1")))
	require.NoError(t, err)
	assert.Contains(t, q.stack, t.Name())
}

func TestGateMixedColumnSets(t *testing.T) {
	q := &queue{}
	g := ingest.NewGate(ingest.GateOptions{Broker: q})
	r := ingesttest.Request(ingesttest.Pages(), record.NDJSON, strings.Join([]string{
		ingesttest.Line("1"), `{"event_id":"2","page":"/","n":2}`, ingesttest.Line("3"), `{"event_id":"4","page":"/","org":"o"}`, `{"n":5,"page":"/","event_id":"5"}`,
	}, "\n"))
	r.AllResults = true
	result, err := g.Ingest(t.Context(), r)
	require.NoError(t, err)
	assert.Equal(t, 5, result.Succeeded)
	require.Len(t, result.Results, 5)
	for i, r := range result.Results {
		assert.Equal(t, ingest.RecordResult{Index: i + 1, OK: true}, r)
	}
	assert.Equal(t, [][]string{
		{ingesttest.Line("1"), ingesttest.Line("3")},
		{`{"event_id":"2","page":"/","n":2}`, `{"event_id":"5","page":"/","n":5}`},
		{`{"event_id":"4","page":"/","org":"o"}`},
	}, q.rows(t))
}

func TestArrayCutOff(t *testing.T) {
	q := &queue{}
	g := ingest.NewGate(ingest.GateOptions{Broker: q})
	cut := `[{"event_id":"b1","page":"/1"},{"event_id":"b2","page":"/2"}`
	_, err := g.Ingest(t.Context(), ingesttest.Request(ingesttest.Pages(), record.JSON, cut))
	var body *record.BodyError
	require.ErrorAs(t, err, &body)
	assert.Equal(t, record.CodeBodyMalformed, body.Code)
	assert.Empty(t, q.stored)
	result, err := g.Ingest(t.Context(), ingesttest.Request(ingesttest.Pages(), record.JSON, cut+"]"))
	require.NoError(t, err)
	assert.Equal(t, 2, result.Succeeded)
	assert.Len(t, flat(q.rows(t)), 2)
}

// A body whose rows are published before its end is looked through first.
func TestVeryLongArrayCutOff(t *testing.T) {
	q := &queue{}
	g := ingest.NewGate(ingest.GateOptions{Broker: q})
	record1 := fmt.Sprintf(`{"event_id":"1","page":"%s"}`, strings.Repeat("p", 100<<10))
	long := "[" + strings.Repeat(record1+",", 60) + record1
	result, err := g.Ingest(t.Context(), ingesttest.Request(ingesttest.Pages(), record.JSON, long))
	var body *record.BodyError
	require.ErrorAs(t, err, &body)
	assert.Empty(t, q.stored)
	assert.Zero(t, result)
	result, err = g.Ingest(t.Context(), ingesttest.Request(ingesttest.Pages(), record.JSON, long+"]"))
	require.NoError(t, err)
	assert.Equal(t, 61, result.Succeeded)
	assert.Len(t, flat(q.rows(t)), 61)
}

func TestElementsThatAreNotObjects(t *testing.T) {
	q := &queue{}
	g := ingest.NewGate(ingest.GateOptions{Broker: q})
	r := ingesttest.Request(ingesttest.Pages(), record.JSON, `[{"event_id":"d1","page":"/1"}, 5, null, [], "x", {"event_id":"d2","page":"/2"}]`)
	r.AllResults = true
	result, err := g.Ingest(t.Context(), r)
	require.NoError(t, err)
	assert.Equal(t, [3]int{6, 2, 4}, [3]int{result.Total, result.Succeeded, result.Failed})
	require.Len(t, result.Results, 6)
	for i, res := range result.Results {
		assert.Equal(t, i+1, res.Index)
		assert.Equal(t, i == 0 || i == 5, res.OK)
		assert.Equal(t, !res.OK, res.Code != "")
	}
}

func TestEmptyBodiesAndEmptyBatches(t *testing.T) {
	q := &queue{}
	g := ingest.NewGate(ingest.GateOptions{Broker: q})
	for _, c := range []struct {
		format record.InputFormat
		body   string
	}{{record.JSON, ""}, {record.JSON, "\n \n"}, {record.NDJSON, ""}} {
		_, err := g.Ingest(t.Context(), ingesttest.Request(ingesttest.Pages(), c.format, c.body))
		var body *record.BodyError
		require.ErrorAs(t, err, &body, "%q", c.body)
		assert.Equal(t, record.CodeBodyEmpty, body.Code)
	}
	result, err := g.Ingest(t.Context(), ingesttest.Request(ingesttest.Pages(), record.JSON, "[]"))
	require.NoError(t, err)
	assert.Equal(t, ingest.Result{}, result)
	assert.Empty(t, q.stored)
}

func TestRecordLargerThanAMessage(t *testing.T) {
	q := &queue{}
	g := ingest.NewGate(ingest.GateOptions{Broker: q})
	huge := fmt.Sprintf(`{"event_id":"2","page":"%s"}`, strings.Repeat("p", 3<<20))
	result, err := g.Ingest(t.Context(), ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Line("1")+"\n"+huge+"\n"+ingesttest.Line("3")))
	require.NoError(t, err)
	assert.Equal(t, 2, result.Succeeded)
	require.Len(t, result.Results, 1)
	assert.Equal(t, 2, result.Results[0].Index)
	assert.Equal(t, record.CodeTooLarge, result.Results[0].Code)
	assert.Equal(t, []string{ingesttest.Line("1"), ingesttest.Line("3")}, flat(q.rows(t)))
}

func TestGateColumnsThatMayNotBeSent(t *testing.T) {
	q := &queue{}
	g := ingest.NewGate(ingest.GateOptions{Broker: q})
	r := ingesttest.Request(ingesttest.Pages(), record.JSON, ingesttest.Line("1"))
	r.Grant = nil
	result, err := g.Ingest(t.Context(), r)
	require.NoError(t, err)
	require.Len(t, result.Results, 1)
	assert.Equal(t, record.CodeColumnNotAllowed, result.Results[0].Code)
	assert.Empty(t, q.stored)
}

// A column that was added a moment ago is found by one refresh per request; the
// records before and after keep their places.
func TestColumnAddedAMomentAgo(t *testing.T) {
	q := &queue{}
	g := ingest.NewGate(ingest.GateOptions{Broker: q})
	body := ingesttest.Line("1") + "\n" + `{"event_id":"2","page":"/","ref":"r"}` + "\n" + `{"event_id":"3","page":"/","nosuch":1}` + "\n" + ingesttest.Line("4")
	asked := 0
	r := ingesttest.Request(ingesttest.Pages(), record.NDJSON, body)
	r.Refresh = func(context.Context) *schema.Table {
		asked++
		return ingesttest.WithRef()
	}
	result, err := g.Ingest(t.Context(), r)
	require.NoError(t, err)
	assert.Equal(t, 1, asked)
	require.Len(t, result.Results, 2, "the last one lacks a column that has no default")
	assert.Equal(t, 3, result.Results[0].Index)
	assert.Equal(t, record.CodeUnknownColumn, result.Results[0].Code)
	assert.Equal(t, [2]int{4, 2}, [2]int{result.Total, result.Succeeded})

	r.Refresh = func(context.Context) *schema.Table { return nil }
	result, err = g.Ingest(t.Context(), r)
	require.NoError(t, err)
	assert.Equal(t, 2, result.Failed)
}

func TestGateRecordWithoutAnyColumn(t *testing.T) {
	columns := []record.Column{{Name: "n", Type: "Int64", Position: 1, DefaultKind: record.DefaultExpression, DefaultExpression: "7"}}
	table := &schema.Table{Name: "d", Columns: columns, Record: record.Compile("d", columns, time.UTC)}
	q := &queue{}
	g := ingest.NewGate(ingest.GateOptions{Broker: q})
	result, err := g.Ingest(t.Context(), ingesttest.Request(table, record.JSON, `[{},{"n":null},{"n":1}]`))
	require.NoError(t, err)
	assert.Equal(t, 1, result.Succeeded)
	require.Len(t, result.Results, 2)
	assert.Equal(t, record.CodeMissingColumn, result.Results[0].Code)
	assert.Equal(t, [][]string{{`{"n":1}`}}, q.rows(t))
}

func TestGateManyFailuresAreCountedExactly(t *testing.T) {
	g := ingest.NewGate(ingest.GateOptions{Broker: &queue{}})
	result, err := g.Ingest(t.Context(), ingesttest.Request(ingesttest.Pages(), record.JSON, "["+strings.Repeat("1,", 15_000)+ingesttest.Line("x")+"]"))
	require.NoError(t, err)
	assert.Equal(t, 15_001, result.Total)
	assert.Equal(t, 15_000, result.Failed)
	assert.Equal(t, 1, result.Succeeded)
	assert.Len(t, result.Results, ingest.MaxResults)
	assert.True(t, result.Truncated)
}

func TestGateCountsRows(t *testing.T) {
	reg := prometheus.NewRegistry()
	g := ingest.NewGate(ingest.GateOptions{Broker: &queue{}, Metrics: reg})
	_, err := g.Ingest(t.Context(), ingesttest.Request(ingesttest.Pages(), record.JSON, "["+ingesttest.Line("1")+","+ingesttest.Line("2")+",3]"))
	require.NoError(t, err)
	assert.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP wavehouse_ingest_rows_total Records received, by what became of them: accepted, failed or duplicate, and by the code of what failed.
# TYPE wavehouse_ingest_rows_total counter
wavehouse_ingest_rows_total{code="",result="accepted",table="pages",tenant="birch"} 2
wavehouse_ingest_rows_total{code="record.malformed",result="failed",table="pages",tenant="birch"} 1
`), "wavehouse_ingest_rows_total"))
}
