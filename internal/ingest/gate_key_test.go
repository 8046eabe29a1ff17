package ingest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/ingest/ingesttest"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
)

func (r *dedupeRig) keyed(key, body string) (ingest.Result, error) {
	q := ingesttest.Request(ingesttest.Pages(), record.JSON, body)
	q.Key = key
	return r.Ingest(r.t.Context(), q)
}

func TestKeyDedupesTheRequest(t *testing.T) {
	r := newDedupeRig(t)
	body := `[{"event_id":"a","page":"/"},{"event_id":"b","n":"x"},{"event_id":"a","page":"/"}]`
	first, err := r.keyed("k1", body)
	require.NoError(t, err)
	assert.Equal(t, []int{2, 0, 1}, []int{first.Succeeded, first.Duplicates, first.Failed}, "records are not told apart")
	assert.False(t, first.Replayed)
	again, err := r.keyed("k1", body)
	require.NoError(t, err)
	assert.True(t, again.Replayed)
	assert.Equal(t, []int{0, 2, 1}, []int{again.Succeeded, again.Duplicates, again.Failed})
	require.Len(t, again.Results, 3)
	assert.Equal(t, first.Results[0], again.Results[1])
	other, err := r.keyed("k2", body)
	require.NoError(t, err)
	assert.Equal(t, 2, other.Succeeded)
	assert.Len(t, r.stored(), 4)
	single, err := r.keyed("k3", ingesttest.Line("x"))
	require.NoError(t, err)
	assert.Equal(t, 1, single.Succeeded)
	single, err = r.keyed("k3", ingesttest.Line("x"))
	require.NoError(t, err)
	assert.True(t, single.Single)
	assert.Equal(t, 1, single.Duplicates)
	r.clock.Pass(ingest.KeyRetention + time.Second)
	r.queue.seen = nil
	single, err = r.keyed("k3", ingesttest.Line("x"))
	require.NoError(t, err)
	assert.Equal(t, 1, single.Succeeded)
}

func TestKeyWithAnotherBody(t *testing.T) {
	r := newDedupeRig(t)
	_, err := r.keyed("k", ingesttest.Line("a"))
	require.NoError(t, err)
	_, err = r.keyed("k", ingesttest.Line("b"))
	r.failed(err, ingest.CodeKeyReused, 0)
	q := ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Line("a"))
	q.Key = "k"
	_, err = r.Ingest(t.Context(), q)
	r.failed(err, ingest.CodeKeyReused, 0)
	assert.Len(t, r.stored(), 1)
}

func TestKeyUnderWay(t *testing.T) {
	r := newDedupeRig(t)
	r.queue.hold = make(chan struct{})
	q := ingesttest.Request(ingesttest.Pages(), record.JSON, ingesttest.Line("a"))
	q.Key = "k"
	first := later(t.Context(), r.Gate, q)
	waitFor(t, "the first publish", func() bool { return r.queue.count() == 1 })
	_, err := r.keyed("k", ingesttest.Line("a"))
	r.failed(err, ingest.CodeKeyInFlight, testLease)
	close(r.queue.hold)
	require.NoError(t, (<-first).err)
	again, err := r.keyed("k", ingesttest.Line("a"))
	require.NoError(t, err)
	assert.Equal(t, 1, again.Duplicates)
}

func TestKeyOfARequestThatStoredNothingIsFree(t *testing.T) {
	r := newDedupeRig(t)
	result, err := r.keyed("k", `{"event_id":"a","n":"x"}`)
	require.NoError(t, err)
	require.Equal(t, 1, result.Failed)
	result, err = r.keyed("k", ingesttest.Line("a"))
	require.NoError(t, err)
	require.Equal(t, 1, result.Succeeded)
}

func TestKeyOfARequestThatFailedInPart(t *testing.T) {
	r := newDedupeRig(t)
	r.queue.fail = func(n int, _ mq.Chunk) error {
		if n == 2 {
			return mq.ErrFull
		}
		return nil
	}
	body := `[{"event_id":"a","page":"/"},{"event_id":"b","page":"/","n":1},{"event_id":"c","page":"/","org":"x"}]`
	result, err := r.keyed("k", body)
	r.failed(err, ingest.CodeQueueFull, 30*time.Second)
	assert.Equal(t, []int{1, 2}, []int{result.Succeeded, result.Failed})
	result, err = r.keyed("k", body)
	require.NoError(t, err)
	assert.Equal(t, 3, result.Succeeded)
	assert.Len(t, r.stored(), 3)
}

func TestKeyAfterAnUnknownOutcome(t *testing.T) {
	r := newDedupeRig(t)
	r.queue.forget = func(n int) bool { return n == 1 }
	_, err := r.keyed("k", ingesttest.Line("a"))
	r.failed(err, ingest.CodeOutcomeUnknown, testLease)
	_, err = r.keyed("k", ingesttest.Line("a"))
	r.failed(err, ingest.CodeKeyInFlight, testLease)
	r.clock.Pass(testLease + time.Second)
	result, err := r.keyed("k", ingesttest.Line("a"))
	require.NoError(t, err)
	assert.Equal(t, 1, result.Succeeded)
	assert.Len(t, r.stored(), 1)
}

func TestKeyAnswersManyFailuresTruthfully(t *testing.T) {
	r := newDedupeRig(t)
	var body strings.Builder
	body.WriteString("[" + ingesttest.Line("a"))
	for range 500 {
		body.WriteString(`,{"event_id":"x","n":"many"}`)
	}
	body.WriteString("]")
	_, err := r.keyed("k", body.String())
	require.NoError(t, err)
	again, err := r.keyed("k", body.String())
	require.NoError(t, err)
	assert.Equal(t, []int{0, 1, 500}, []int{again.Succeeded, again.Duplicates, again.Failed})
	assert.True(t, again.Truncated)
	for _, result := range again.Results {
		assert.NotEmpty(t, result.Code)
	}
}

func TestKeyIsOfOneTable(t *testing.T) {
	r := newDedupeRig(t)
	_, err := r.keyed("k", ingesttest.Line("a"))
	require.NoError(t, err)
	q := ingesttest.Request(ingesttest.Pages(), record.JSON, ingesttest.Line("b"))
	q.Key, q.Tenant = "k", cedar
	result, err := r.Ingest(t.Context(), q)
	require.NoError(t, err)
	assert.Equal(t, 1, result.Succeeded)
}
