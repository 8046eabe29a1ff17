// Package notice is the contract of what the processes of one service tell each
// other: that a table was written, that a statement changed things, which
// settings a process serves. Notices are hints and may get lost; who listens has
// a rule for that.
package notice

import (
	"context"
	"errors"
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// ErrNoAnswer says that no process that writes the table answered.
var ErrNoAnswer = errors.New("no process that writes the table answers")

// Notice is one of the types below.
type Notice interface {
	// Weight is about what the notice takes in memory, in bytes.
	Weight() int
}

// Written says what a worker did with rows of a table. Several may speak of one
// chunk; the last of them says that it is settled.
type Written struct {
	mq.Topic
	// Inserted counts rows that can be read in ClickHouse now.
	Inserted int
	// Parked are rows that became dead letters.
	Parked []ParkedRow
	// Settled are chunks all of whose rows are inserted or parked by now.
	Settled []mq.Position
}

// ParkedRow is a row that became a dead letter.
type ParkedRow struct {
	Chunk mq.Position
	// Row is its index in the chunk, from 0; below 0 is not known which.
	Row int
	// Code and Message are those of the dead letter, the message shortened.
	Code, Message string
}

// Statement says that a statement was run for a tenant that may have written any
// table of its ClickHouse.
type Statement struct {
	Tenant tenant.ID
	// Changed says that tables and views may be others now.
	Changed bool
}

// Process says what a process is and which settings it serves. It is told at every
// adoption, whenever something of it changes, and every few seconds.
type Process struct {
	// Instance is the process's instance_id, which another may have too; Run tells
	// such apart.
	Instance string    `json:"instance"`
	Run      string    `json:"run"`
	Roles    []string  `json:"roles"`
	Version  string    `json:"version"`
	Started  time.Time `json:"started"`
	// Generation is the same for the same settings of all tenants, and Adopted is
	// when the process took them.
	Generation string    `json:"generation"`
	Adopted    time.Time `json:"adopted"`
	// Shards are those of the queue that it has, sorted.
	Shards []string `json:"shards,omitempty"`
	// Left says that it ends.
	Left bool `json:"left,omitempty"`
}

// Lost says that any number of notices may be missing before the next one.
type Lost struct{}

// Weight implements Notice.
func (w Written) Weight() int {
	n := 64 + len(w.Table) + 16*len(w.Settled)
	for _, p := range w.Parked {
		n += 64 + len(p.Message)
	}
	return n
}

// Weight implements Notice.
func (Statement) Weight() int { return 64 }

// Weight implements Notice.
func (p Process) Weight() int { return 256 + 16*len(p.Shards) }

// Weight implements Notice.
func (Lost) Weight() int { return 0 }

// Progress is how far a worker is with one table.
type Progress struct {
	// Frontier is the position up to which every chunk of the table is written
	// or parked; zero when the worker has not seen enough to know.
	Frontier mq.Position
	// Since is a time: every chunk of the table that was stored before it is
	// written or parked, by the clock of who took them. It is zero when that is not
	// known.
	Since time.Time
	// Quiet says that nothing of the table beyond Frontier is written, and that
	// no INSERT into it is under way.
	Quiet bool
	// Writes is another once a write of the table begins, or another worker
	// answers. Two quiet looks with the same one had no write between them.
	Writes uint64
}

// Bus carries notices and questions between processes. All methods are safe for
// concurrent use.
type Bus interface {
	// Listen has handle called with what any process tells from now on, this one
	// included: what one of them tells in its order, one call at a time, handles
	// in the order in which they began to listen. A Lost stands where notices may
	// be missing: handles were too slow, or the processes were out of touch.
	// Listen and Answer are called before Run.
	Listen(handle func([]Notice))
	// Answer has progress answer for the tables that this process writes; false
	// is for one that it does not.
	Answer(progress func(mq.Topic) (Progress, bool))
	// Tell tells all processes. It waits for nobody, and may be called before
	// Run and after it.
	Tell(n Notice)
	// Flush returns once all that this process told before was handled here. The
	// error is that of a bus that does not run any more, or ctx's.
	Flush(ctx context.Context) error
	// Progress asks whoever writes the table; the error may wrap ErrNoAnswer.
	Progress(ctx context.Context, t mq.Topic) (Progress, error)
	// Run carries notices until ctx ends; what was told before is then handled
	// still.
	Run(ctx context.Context) error
}
