package embedded

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/wavehouse/wavehouse/internal/mq"
)

const (
	// reserve is what a volume must have free: a twentieth of it, but no more
	// than 1 GiB.
	reserveShare = 20
	maxReserve   = 1 << 30
	// notesRoom is what must be free for a purge, but no more than half the
	// reserve. The store writes down what it purges; one that cannot, because
	// not a byte is left, locks itself up for good.
	notesRoom = 2 << 20
	// recheckBytes is how much may be published between two looks.
	recheckBytes = 32 << 20
)

// space watches the free space of the volume, so that ingest is refused
// before the disk is full.
type space struct {
	ask     func() (free, total uint64, err error)
	log     *slog.Logger
	ballast ballast
	cause   atomic.Pointer[error]
	written atomic.Int64

	mu      sync.Mutex
	failing bool
}

func newSpace(o Options, log *slog.Logger) *space {
	s := &space{ask: o.FreeSpace, log: log, ballast: newBallast(o.Dir)}
	s.check()
	s.trim()
	return s
}

// full is the reason to refuse a message of n bytes, or nil.
func (s *space) full(n int64) error {
	if s.written.Add(n) > recheckBytes {
		s.check()
	}
	if p := s.cause.Load(); p != nil {
		return *p
	}
	return nil
}

// check looks at the volume. A volume that was full must have a tenth more
// than the reserve before it is used again.
func (s *space) check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written.Store(0)
	free, total, err := s.ask()
	if err != nil {
		s.unknown(err)
		return
	}
	s.failing = false
	reserve := min(total/reserveShare, maxReserve)
	was := s.cause.Load() != nil
	if was {
		reserve += reserve / 10
	}
	switch low := free < reserve; {
	case low && !was:
		err := fmt.Errorf("%w: the volume has %d of %d bytes free, less than the %d kept back", mq.ErrFull, free, total, reserve)
		s.cause.Store(&err)
		s.log.Error("queue volume is full: ingest is refused", "free", free, "total", total, "reserve", reserve)
	case !low && was:
		s.cause.Store(nil)
		s.log.Info("queue volume has room again: ingest is accepted", "free", free, "total", total)
	}
}

// trim gives up the ballast when there is no room for notes, and takes it again
// when there is plenty.
func (s *space) trim() {
	free, total, err := s.ask()
	if err != nil {
		return
	}
	need := notesNeed(total)
	switch {
	case free < need && s.ballast.drop():
		s.log.Error("queue volume has no room left: what was kept back for this moment is given up", "free", free)
	case s.cause.Load() == nil && free > 4*need && s.ballast.held() == 0:
		if err := s.ballast.take(2 * need); err != nil {
			s.log.Warn("no room is kept back for a full volume", "error", err)
		}
	}
}

// notesNeed is what a purge needs.
func notesNeed(total uint64) uint64 { return min(notesRoom, total/(2*reserveShare)) }

// notes is the reason not to purge, or nil.
func (s *space) notes() error {
	free, total, err := s.ask()
	if err != nil {
		return nil // not to know is no reason
	}
	if free < notesNeed(total) {
		return fmt.Errorf("%w: the volume has %d of %d bytes free, less than a purge needs", mq.ErrFull, free, total)
	}
	return nil
}

// unknown keeps the last verdict: not to know is no reason to refuse.
func (s *space) unknown(err error) {
	if !s.failing {
		s.failing = true
		s.log.Error("free space of the queue volume is unknown", "error", err)
	}
}
