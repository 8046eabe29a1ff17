package insert_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/ingest/ingesttest"
	"github.com/wavehouse/wavehouse/internal/insert"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/notice"
	"github.com/wavehouse/wavehouse/internal/record"
)

func TestMessageThatCannotBeRead(t *testing.T) {
	t.Parallel()
	topic := mq.Topic{Tenant: birch, Table: "pages"}
	good := mq.Header{
		Version: mq.Version, Format: mq.FormatRowBinary, Rows: 1, Received: time.Now(),
		Columns: `[{"name":"event_id","type":"String"},{"name":"page","type":"String"}]`,
	}
	with := func(change func(*mq.Header)) mq.Header {
		h := good
		change(&h)
		return h
	}
	messages := map[string]mq.Chunk{
		"not a chunk":      {Topic: topic, Body: []byte("{broken")},
		"unknown version":  {Topic: topic, Header: with(func(h *mq.Header) { h.Version = "2" }), Body: []byte("\x01a\x01b")},
		"columns":          {Topic: topic, Header: with(func(h *mq.Header) { h.Columns = `[{"name":"a","type":"NoSuchType"}]` }), Body: []byte("x")},
		"empty body":       {Topic: topic, Header: good},
		"unknown encoding": {Topic: topic, Header: with(func(h *mq.Header) { h.Encoding = "br" }), Body: []byte("x")},
		"broken zstd":      {Topic: topic, Header: with(func(h *mq.Header) { h.Encoding = "zstd" }), Body: []byte("x")},
	}
	for name, m := range messages {
		for _, park := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, parking %t", name, park), func(t *testing.T) {
				s := &sink{name: "ch"}
				r := newRig(t).open()
				r.publish(m)
				r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 10)))
				r.start(func(o *insert.WorkerOptions) {
					o.Pool, o.Settings = pool(s), served(insert.Flush{MaxWait: 10 * time.Millisecond}, park)
				})
				r.settled(birch)
				assertSameRows(t, ingesttest.Rows(0, 10), s.rows())
				letters := r.letters(birch, "pages")
				if !park {
					assert.Empty(t, letters)
					assert.Contains(t, r.logs.String(), "dropped a message")
					return
				}
				require.Len(t, letters, 1)
				assert.Equal(t, "chunk.unreadable", letters[0].Code)
				assert.Equal(t, string(m.Body), string(letters[0].Row))
				assert.Empty(t, letters[0].Version)
			})
		}
	}
}

// A chunk whose rows and columns do not pair is found when ClickHouse refuses
// it, parked as it came, and takes no other row with it.
func TestRowsThatDoNotPair(t *testing.T) {
	t.Parallel()
	for _, park := range []bool{true, false} {
		t.Run(fmt.Sprint("parking ", park), func(t *testing.T) {
			s := &sink{name: "ch"}
			s.fail = func(i statement) error {
				for _, row := range i.rows {
					if strings.Contains(row, "odd") {
						return refusedError()
					}
				}
				return nil
			}
			r := newRig(t).open()
			columns := `[{"name":"event_id","type":"String"},{"name":"page","type":"String"}]`
			r.publish(mq.Chunk{
				Topic:  mq.Topic{Tenant: birch, Table: "pages"},
				Header: mq.Header{Version: mq.Version, Format: mq.FormatRowBinary, Rows: 3, Received: time.Now(), Columns: columns},
				Body:   []byte("\x03odd\x01b\x01c\x01d"),
			})
			r.send(ingesttest.Request(ingesttest.Pages(), record.NDJSON, ingesttest.Lines(0, 10)))
			r.start(func(o *insert.WorkerOptions) {
				o.Pool, o.Settings = pool(s), served(insert.Flush{MaxWait: 10 * time.Millisecond}, park)
			})
			r.settled(birch)
			assertSameRows(t, ingesttest.Rows(0, 10), s.rows())
			if park {
				require.Len(t, r.letters(birch, "pages"), 1)
				return
			}
			assert.Empty(t, r.letters(birch, "pages"))
			assert.Contains(t, r.logs.String(), "dropped a message")
		})
	}
}

// A chunk that does not pair is found whatever made ClickHouse refuse it.
func TestRowsThatDoNotPairUnderOtherRefusals(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"types changed": exception(clickhouse.ClassRejected, 117, "Type of 'n' must be String"),
		"too much":      exception(clickhouse.ClassSplittable, 241, "Memory limit exceeded"),
	} {
		t.Run(name, func(t *testing.T) {
			s := &sink{name: "ch", fail: func(statement) error { return err }}
			r := newRig(t).open()
			r.publish(mq.Chunk{
				Topic: mq.Topic{Tenant: birch, Table: "pages"},
				Header: mq.Header{
					Version: mq.Version, Format: mq.FormatRowBinary, Rows: 3, Received: time.Now(),
					Columns: `[{"name":"event_id","type":"String"}]`,
				},
				Body: []byte("\x01a\x01b"),
			})
			told := make(chan notice.Notice, 100)
			r.start(func(o *insert.WorkerOptions) {
				o.Pool = pool(s)
				o.Tell = func(n notice.Notice) { told <- n }
			})
			r.settled(birch)
			letters := r.letters(birch, "pages")
			require.Len(t, letters, 1)
			assert.Equal(t, "chunk.unreadable", letters[0].Code)
			assert.Equal(t, "\x01a\x01b", string(letters[0].Row))
			parked := (<-told).(notice.Written).Parked
			require.Len(t, parked, 1)
			assert.Negative(t, parked[0].Row, "whoever waits is not told that one row alone is parked")
			waitFor(t, "the row to be counted", func() bool { return r.worker.Status().RowsParked == 1 })
		})
	}
}

func TestWorkerReadsCompressedChunksAndText(t *testing.T) {
	t.Parallel()
	enc, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	columns := `[{"name":"event_id","type":"String"},{"name":"j","type":"JSON"}]`
	text := mq.Header{Version: mq.Version, Format: mq.FormatJSONCompactEachRow, Rows: 2, Received: time.Now(), Columns: columns, Encoding: "zstd"}
	s := &sink{name: "ch", fail: refusing(map[string]bool{`["1",{"a":1}]`: true})}
	r := newRig(t).open()
	r.publish(mq.Chunk{Topic: mq.Topic{Tenant: birch, Table: "pages"}, Header: text, Body: enc.EncodeAll([]byte(`["1",{"a":1}]`+"\n"+`["2",{}]`), nil)})
	text.Encoding, text.Rows = "", 1
	r.publish(mq.Chunk{Topic: mq.Topic{Tenant: birch, Table: "pages"}, Header: text, Body: []byte(`["3",{}]`)})
	r.start(func(o *insert.WorkerOptions) { o.Pool = pool(s) })
	r.settled(birch)
	assertSameRows(t, []string{`["2",{}]`, `["3",{}]`}, s.rows())
	letters := r.letters(birch, "pages")
	require.Len(t, letters, 1)
	assert.Equal(t, `["1",{"a":1}]`, strings.TrimSpace(string(letters[0].Row)))
	assert.Equal(t, columns, letters[0].Columns)
}
