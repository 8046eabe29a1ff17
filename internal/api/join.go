package api

import (
	"context"
	"net/http"
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/notice"
)

// Frontiers knows how far the rows of a table are in ClickHouse.
type Frontiers interface {
	Frontier(ctx context.Context, t mq.Topic) (notice.Progress, error)
	// Through is a time: every row of the table that was accepted before it is
	// inserted or parked. It is zero when that is not known for certain.
	Through(ctx context.Context, t mq.Topic) time.Time
}

const (
	// joinAttempts bounds how often a query is run for an answer that no
	// INSERT crossed, and joinRepeat how long one may take to be run again.
	joinAttempts = 3
	joinRepeat   = 250 * time.Millisecond
	// joinWait is how long a query waits for an INSERT that is under way, and
	// joinLook how often it looks.
	joinWait = 250 * time.Millisecond
	joinLook = 2 * time.Millisecond
)

// wantsPosition reports whether the caller asked for the position that its
// answer includes.
func (s *Server) wantsPosition(c *request) (bool, error) {
	value, err := oneOf(c.query, "position", "1", "0", "true", "false")
	switch {
	case err != nil:
		return false, err
	case value == "" || value == "0" || value == "false":
		return false, nil
	case s.Frontiers == nil:
		return false, problem(http.StatusBadRequest, "query.position_unavailable",
			"the queue cannot be asked how far it is, so no position is known")
	}
	return true, nil
}

// answerJoined answers with the position that the rows include. The frontier
// is read before the query runs: what is written meanwhile can only be in the
// answer and follow on the stream too, never be in neither. An answer that is not
// held is sent before it is known whether anything was.
func (s *Server) answerJoined(w http.ResponseWriter, r *http.Request, c *request, at *room, table string, q read) error {
	topic := mq.Topic{Tenant: c.tenant, Table: table}
	q.on = &tables{ask: q.depends}
	for attempt := 1; ; attempt++ {
		before, err := s.awaitQuiet(r.Context(), topic)
		if err != nil {
			return err
		}
		started := time.Now()
		own, err := s.fetch(r.Context(), at, q)
		if err != nil {
			return err
		}
		exact := false
		if own.rest == nil {
			after, err := s.Frontiers.Frontier(r.Context(), topic)
			if err != nil {
				return err
			}
			exact = before.Quiet && after.Quiet && before.Writes == after.Writes
			if !exact && attempt < joinAttempts && time.Since(started) < joinRepeat {
				at.letGo()
				continue
			}
		}
		defer own.close()
		header := w.Header()
		tellCacheState(w, cacheBypass)
		header.Set("Cache-Control", "no-store")
		header.Set("X-Stream-Position", s.Streams.EventID(topic, before.Frontier))
		header.Set("X-Stream-Join", joinName(exact))
		q.tell(r.Context(), header, own)
		return s.send(w, r, c, at, own, rendering{rows: q.as, of: q})
	}
}

func joinName(exact bool) string {
	if exact {
		return "exact"
	}
	return "overlap"
}

// awaitQuiet waits a little for an INSERT of the table that is under way.
func (s *Server) awaitQuiet(ctx context.Context, t mq.Topic) (notice.Progress, error) {
	deadline := time.NewTimer(joinWait)
	defer deadline.Stop()
	look := time.NewTicker(joinLook)
	defer look.Stop()
	for {
		f, err := s.Frontiers.Frontier(ctx, t)
		if err != nil || f.Quiet {
			return f, err
		}
		select {
		case <-look.C:
		case <-deadline.C:
			return f, nil
		case <-ctx.Done():
			return f, ctx.Err()
		}
	}
}
