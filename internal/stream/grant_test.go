package stream

import (
	"encoding/binary"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/stream/streamtest"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// oddsHidden shows even rows, and cannot decide about row 13.
type oddsHidden struct {
	testGrant
	calls *atomic.Int64
}

var errUndecided = errors.New("undecided")

func (g oddsHidden) Visible(_ *record.Layout, row []byte) (bool, error) {
	g.calls.Add(1)
	n := binary.LittleEndian.Uint64(row)
	if n == 13 {
		return true, errUndecided
	}
	return n%2 == 0, nil
}

func rowJSON(t *testing.T, s *streamtest.Stream) string {
	t.Helper()
	f, err := s.NextEvent()
	require.NoError(t, err)
	row, err := f.Row()
	require.NoError(t, err, "%+v", f)
	return string(row.Row)
}

func TestColumnsFollowTheGrantPerChunk(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{}, nil)
	s := r.open(testTable, "", "")
	start := s.LastID()
	b.publish(rowsChunk(testTable, 1))
	assert.Equal(t, `{"n":1,"page":"/home"}`, rowJSON(t, s))
	r.allow(testGrant{name: "no page", deny: []string{"page"}})
	b.publish(rowsChunk(testTable, 2))
	assert.Equal(t, `{"n":2}`, rowJSON(t, s))
	assert.Equal(t, `{"n":1}`, rowJSON(t, r.open(testTable, start, "")), "history too")

	r.allow(testGrant{name: "nothing", deny: []string{"n", "page"}})
	b.publish(rowsChunk(testTable, 3))
	assert.Equal(t, `{}`, rowJSON(t, s))

	r.refuse(errors.New("no grant"))
	b.publish(rowsChunk(testTable, 4, 5))
	f, err := s.NextEvent()
	require.NoError(t, err)
	assert.Equal(t, EndAccessRevoked, f.EndReason())
	assert.GreaterOrEqual(t, r.counter(r.hub.metrics.withheld.WithLabelValues("0", testTable, withheldGrant)), 2.0)
}

func TestOneProjectionPerDistinctView(t *testing.T) {
	b := newMemoryBroker()
	var projections atomic.Int64
	hidden := func(tenant.ID, string) ([]string, bool) { projections.Add(1); return []string{"page"}, true }
	grants := map[string]Grant{"a": testGrant{name: "a"}, "b": testGrant{name: "b"}}
	r := newRig(t, b, Options{Hidden: hidden}, func(s *Subscription, req *http.Request) {
		g := grants[req.URL.Query().Get("role")]
		s.Grant = func() (Grant, error) { return g, nil }
		s.Render.Int64AsString = req.URL.Query().Has("text")
	})
	var streams []*streamtest.Stream
	for range 5 {
		streams = append(streams, r.open(testTable, "", "&role=a"), r.open(testTable, "", "&role=b"))
	}
	streams = append(streams, r.open(testTable, "", "&role=a&text"))
	for n := uint64(1); n <= 3; n++ {
		b.publish(rowsChunk(testTable, n))
		for _, s := range streams {
			assert.NotContains(t, rowJSON(t, s), "page")
		}
		assert.Equal(t, int64(3*n), projections.Load(), "roles a, b, and a with text integers")
	}
}

func TestTableThatIsNotInTheCatalogue(t *testing.T) {
	b := newMemoryBroker()
	var known atomic.Bool
	r := newRig(t, b, Options{Hidden: func(tenant.ID, string) ([]string, bool) { return nil, known.Load() }}, nil)
	s := r.open(testTable, "", "")
	b.publish(rowsChunk(testTable, 1, 2))
	withheld := r.hub.metrics.withheld.WithLabelValues("0", testTable, withheldTable)
	eventually(t, "both are withheld", func() bool { return r.counter(withheld) == 2 })
	known.Store(true)
	b.publish(rowsChunk(testTable, 3))
	assert.Equal(t, []uint64{3}, next(t, s, 1))
}

func TestRowsFollowTheGrant(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{}, nil)
	var calls atomic.Int64
	r.allow(oddsHidden{testGrant{name: "even"}, &calls})
	s, twin := r.open(testTable, "", ""), r.open(testTable, "", "")
	start := s.LastID()
	b.publish(rowsChunk(testTable, 1, 2, 3, 4, 13))
	b.publish(rowsChunk(testTable, 14))
	want := []uint64{2, 4, 14}
	assert.Equal(t, want, next(t, s, 3))
	assert.Equal(t, want, next(t, twin, 3))
	assert.Equal(t, int64(6), calls.Load(), "each row is asked about once")
	assert.Equal(t, 1.0, r.counter(r.hub.metrics.withheld.WithLabelValues("0", testTable, withheldFilter)))
	assert.Equal(t, want, next(t, r.open(testTable, start, ""), 3), "history too")
}

func TestUnreadableChunksAreWithheldAndCounted(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{}, nil)
	s := r.open(testTable, "", "")
	for name, c := range map[string]struct {
		reason string
		spoil  func(*mq.Chunk)
	}{
		"version":  {withheldFormat, func(c *mq.Chunk) { c.Version = "2" }},
		"format":   {withheldFormat, func(c *mq.Chunk) { c.Format = "CSV" }},
		"encoding": {withheldFormat, func(c *mq.Chunk) { c.Encoding = "lz4" }},
		"zstd":     {withheldFormat, func(c *mq.Chunk) { c.Encoding = "zstd" }},
		"columns":  {withheldLayout, func(c *mq.Chunk) { c.Columns = "{" }},
		"cut":      {withheldLayout, func(c *mq.Chunk) { c.Body = c.Body[:len(c.Body)-1] }},
		"rest":     {withheldLayout, func(c *mq.Chunk) { c.Body = append(c.Body, 0) }},
		"rows":     {withheldLayout, func(c *mq.Chunk) { c.Rows = 1 << 40 }},
		"negative": {withheldLayout, func(c *mq.Chunk) { c.Rows = -1 }},
	} {
		count := r.hub.metrics.withheld.WithLabelValues("0", testTable, c.reason)
		before := r.counter(count)
		bad := rowsChunk(testTable, 1, 2)
		c.spoil(&bad)
		b.publish(bad)
		b.publish(rowsChunk(testTable, 3))
		assert.Equal(t, []uint64{3}, next(t, s, 1), name)
		assert.Equal(t, float64(max(bad.Rows, 1)), r.counter(count)-before, name)
	}
}

func TestCompressedChunk(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{}, nil)
	s := r.open(testTable, "", "")
	enc, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	c := rowsChunk(testTable, 1, 2, 3)
	c.Encoding, c.Body = "zstd", enc.EncodeAll(c.Body, nil)
	b.publish(c)
	assert.Equal(t, []uint64{1, 2, 3}, next(t, s, 3))
}

func TestRenderOptionsAndValuesThatAreNone(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{}, func(s *Subscription, _ *http.Request) { s.Render.Int64AsString = true })
	s := r.open(testTable, "", "")
	b.publish(rowsChunk(testTable, 1<<60))
	assert.Equal(t, `{"n":"1152921504606846976","page":"/home"}`, rowJSON(t, s))

	c := rowsChunk(testTable)
	c.Columns, c.Rows = `[{"name":"k","type":"Enum8('a' = 1, 'b' = 2)"}]`, 3
	c.Body = []byte{1, 9, 2}
	b.publish(c)
	assert.Equal(t, `{"k":"a"}`, rowJSON(t, s))
	assert.Equal(t, `{"k":"b"}`, rowJSON(t, s), "the row between has no such member")
	assert.Equal(t, 1.0, r.counter(r.hub.metrics.withheld.WithLabelValues("0", testTable, withheldValue)))
}
