package stream

import (
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
)

// maxDecodedBytes bounds what a compressed chunk may unpack to.
const maxDecodedBytes = 16 << 20

// maxChunkRows bounds the rows that a header may promise.
const maxChunkRows = 1 << 20

// block is a chunk whose rows were found.
type block struct {
	layout *record.Layout
	body   []byte
	ends   []int
}

// row returns the bytes of row i.
func (b *block) row(i int) []byte {
	start := 0
	if i > 0 {
		start = b.ends[i-1]
	}
	return b.body[start:b.ends[i]]
}

// unreadable says why a chunk's rows are withheld.
type unreadable struct {
	reason string
	err    error
}

func (u *unreadable) Error() string { return u.err.Error() }
func (u *unreadable) Unwrap() error { return u.err }

// opener turns chunks into blocks.
type opener struct {
	layouts layouts
	zstd    *zstd.Decoder
}

func newOpener() *opener {
	// DecodeAll of one decoder may run concurrently; it starts no goroutines.
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxDecodedBytes))
	if err != nil {
		panic(fmt.Sprintf("stream: zstd decoder: %v", err)) // fixed options
	}
	return &opener{zstd: d}
}

// open finds the rows of c; the error is an *unreadable.
func (o *opener) open(c mq.Chunk) (*block, error) {
	if c.Version != mq.Version || c.Format != mq.FormatRowBinary && c.Format != mq.FormatJSONCompactEachRow {
		return nil, &unreadable{withheldFormat, fmt.Errorf("version %q, format %q", c.Version, c.Format)}
	}
	body, err := o.decode(c)
	if err != nil {
		return nil, &unreadable{withheldFormat, err}
	}
	if c.Rows < 0 || c.Rows > maxChunkRows {
		return nil, &unreadable{withheldLayout, fmt.Errorf("%d rows in %d bytes", c.Rows, len(body))}
	}
	var layout *record.Layout
	if c.Format == mq.FormatJSONCompactEachRow {
		layout, body, err = o.layouts.readLines(c.Columns, body, c.Rows)
	} else {
		layout, err = o.layouts.get(c.Columns)
	}
	if err != nil {
		return nil, &unreadable{withheldLayout, fmt.Errorf("columns: %w", err)}
	}
	ends, err := layout.Ends(make([]int, 0, c.Rows), body, c.Rows)
	if err != nil {
		return nil, &unreadable{withheldLayout, err}
	}
	return &block{layout: layout, body: body, ends: ends}, nil
}

var errEncoding = errors.New("unknown encoding")

func (o *opener) decode(c mq.Chunk) ([]byte, error) {
	switch c.Encoding {
	case "":
		return c.Body, nil
	case "zstd":
		body, err := o.zstd.DecodeAll(c.Body, nil)
		if err != nil {
			return nil, fmt.Errorf("zstd body: %w", err)
		}
		return body, nil
	}
	return nil, fmt.Errorf("%w %q", errEncoding, c.Encoding)
}

// sharedChunk is a chunk of the live backlog with what its readers share: it
// is decoded once and projected once per group.
type sharedChunk struct {
	mq.Chunk
	pos mq.Position

	openOnce sync.Once
	block    *block

	mu     sync.Mutex
	shares []share // guarded by mu; short: a share leaves when its group has read it
}

// share is one group's projection of a chunk.
type share struct {
	group  *group
	frames *frames
}

// frames are the events of one chunk as one group sees them.
type frames struct {
	once  sync.Once
	bytes []byte
	rows  int

	left int // guarded by the chunk's mu: members that have not taken it yet
}

// take returns the group's projection, made by whichever member comes first.
func (c *sharedChunk) take(g *group, project func() ([]byte, int)) *frames {
	f := c.claim(g)
	f.once.Do(func() { f.bytes, f.rows = project() })
	return f
}

// claim finds or adds the group's share and drops it from the chunk with its
// last member, so that a chunk held by one slow reader does not also hold
// every other group's bytes. The count is a hint: a member that comes after
// the share is gone makes it again.
func (c *sharedChunk) claim(g *group) *frames {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.shares {
		if c.shares[i].group != g {
			continue
		}
		f := c.shares[i].frames
		if f.left--; f.left <= 0 {
			last := len(c.shares) - 1
			c.shares[i] = c.shares[last]
			c.shares[last] = share{}
			c.shares = c.shares[:last]
		}
		return f
	}
	f := &frames{left: int(g.members.Load()) - 1}
	if f.left > 0 {
		c.shares = append(c.shares, share{g, f})
	}
	return f
}
