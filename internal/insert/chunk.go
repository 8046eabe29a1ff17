package insert

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

const (
	// chunkOverhead is what a held chunk costs in memory beside its body.
	chunkOverhead = 512
	// maxDecoded bounds a compressed chunk's rows.
	maxDecoded = 16 << 20
	// codeUnreadable is the code of a message that is not a chunk.
	codeUnreadable = "chunk.unreadable"
)

// chunkKey names a chunk over all tenants.
type chunkKey struct {
	tenant tenant.ID
	pos    mq.Position
}

// chunk is a delivery in hand.
type chunk struct {
	key      chunkKey
	topic    mq.Topic
	shape    *shape
	body     []byte
	rows     int
	received time.Time
	trace    string
	size     int64

	// Guarded by the worker's mutex.
	delivery mq.Delivery
	extended time.Time

	// Owned by the flush the chunk is in.
	left int   // rows neither written nor parked yet
	ends []int // where each row ends, worked out when it must be known
}

// readChunk judges a delivery by its header alone; its rows are not parsed.
func (w *Worker) readChunk(d mq.Delivery) (*chunk, error) {
	m := d.Chunk()
	switch {
	case m.Version == "":
		return nil, errors.New("the message is not a chunk")
	case m.Version != mq.Version:
		return nil, fmt.Errorf("unknown chunk version %q", m.Version)
	case m.Rows <= 0:
		return nil, fmt.Errorf("a chunk of %d rows", m.Rows)
	case len(m.Body) == 0:
		return nil, fmt.Errorf("a chunk of %d rows without a body", m.Rows)
	}
	shape, err := w.shapes.get(m.Header)
	if err != nil {
		return nil, err
	}
	body, err := w.decompress(m)
	if err != nil {
		return nil, err
	}
	return &chunk{
		key: chunkKey{m.Tenant, d.Position()}, topic: m.Topic, shape: shape, body: body, rows: m.Rows,
		received: m.Received, trace: m.TraceParent, size: int64(len(body) + chunkOverhead),
		delivery: d, left: m.Rows,
	}, nil
}

func (w *Worker) decompress(m mq.Chunk) ([]byte, error) {
	switch m.Encoding {
	case "":
		return m.Body, nil
	case "zstd":
		body, err := w.zstd.DecodeAll(m.Body, nil)
		if err != nil {
			return nil, fmt.Errorf("zstd body: %w", err)
		}
		return body, nil
	}
	return nil, fmt.Errorf("unknown encoding %q", m.Encoding)
}

func newDecompressor() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxDecoded))
	if err != nil {
		panic("ingest: zstd decoder options: " + err.Error())
	}
	return d
}

// pair finds the rows of the body; an error means that body and header do not
// pair.
func (c *chunk) pair() error {
	if c.ends != nil {
		return nil
	}
	if c.shape.format == mq.FormatJSONCompactEachRow {
		return c.pairLines()
	}
	ends, err := c.shape.layout.Ends(make([]int, 0, c.rows), c.body, c.rows)
	if err != nil {
		return fmt.Errorf("the rows do not pair with the columns: %w", err)
	}
	c.ends = ends
	return nil
}

func (c *chunk) pairLines() error {
	ends := make([]int, 0, c.rows)
	for at := 0; at < len(c.body); {
		n := bytes.IndexByte(c.body[at:], '\n')
		if n < 0 {
			n = len(c.body) - at - 1
		}
		at += n + 1
		ends = append(ends, at)
	}
	if len(ends) != c.rows {
		return fmt.Errorf("%d lines in a chunk of %d rows", len(ends), c.rows)
	}
	c.ends = ends
	return nil
}

// slice returns the bytes of rows from to to. Unless it is the whole chunk,
// pair has succeeded before.
func (c *chunk) slice(from, to int) []byte {
	if from == 0 && to == c.rows {
		return c.body
	}
	start := 0
	if from > 0 {
		start = c.ends[from-1]
	}
	return c.body[start:c.ends[to-1]]
}
