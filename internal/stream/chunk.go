package stream

import (
	"sync"

	"github.com/wavehouse/wavehouse/internal/chunk"
	"github.com/wavehouse/wavehouse/internal/mq"
)

// sharedChunk is a chunk of the live backlog with what its readers share: it
// is decoded once and projected once per group.
type sharedChunk struct {
	mq.Chunk
	pos mq.Position

	openOnce sync.Once
	opened   *chunk.Chunk // nil when its rows are withheld

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
