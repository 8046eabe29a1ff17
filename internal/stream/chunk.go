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

	mu          sync.Mutex
	projections []projection // guarded by mu; short: a projection leaves when its group has read it
}

// projection is one group's projection of a chunk.
type projection struct {
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
	f := c.framesOf(g)
	f.once.Do(func() { f.bytes, f.rows = project() })
	return f
}

// framesOf finds or adds the group's projection and drops it from the chunk with its
// last member, so that a chunk held by one slow reader does not also hold
// every other group's bytes. The count is a hint: a member that comes after
// the projection is gone makes it again.
func (c *sharedChunk) framesOf(g *group) *frames {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.projections {
		if c.projections[i].group != g {
			continue
		}
		f := c.projections[i].frames
		if f.left--; f.left <= 0 {
			last := len(c.projections) - 1
			c.projections[i] = c.projections[last]
			c.projections[last] = projection{}
			c.projections = c.projections[:last]
		}
		return f
	}
	f := &frames{left: int(g.members.Load()) - 1}
	if f.left > 0 {
		c.projections = append(c.projections, projection{g, f})
	}
	return f
}
