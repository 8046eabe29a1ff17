package insert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/wavehouse/wavehouse/internal/dedupe"
)

// The rows of some chunks have ids that could not be asked for when they were
// accepted. They are claimed here, before the rows are inserted: the id is
// committed with the chunk's position beside it, for its record is durable, so
// that a chunk that comes again knows the ids that are its own. The rows of others
// were stored before, or will be, and are left out.

// claim is what is known of a chunk's ids.
type claim struct {
	// own and others are the rows whose ids are this chunk's, and somebody else's.
	own, others []bool
	done        bool
}

// errInFlight says that another request is at an id.
var errInFlight = errors.New("another request is at the id of a record")

// claimIDs claims the ids of the insertion's chunks and leaves out the rows whose
// ids are others'. What it waits for has the table's backoff, so that its rows keep
// their order. The verdict is again once all is claimed.
func (f *batch) claimIDs(i *insertion) verdict {
	if !slices.ContainsFunc(i.spans, func(s span) bool { return s.c.IDs != nil }) {
		return again
	}
	*i = f.readable(*i)
	for n := 0; n < len(i.spans); {
		c := i.spans[n].c
		if c.IDs == nil || c.claim.done {
			n++
			continue
		}
		if v := f.pass(i, f.b.waits); v != again {
			return v
		}
		if err := f.claimChunk(c); err != nil {
			f.w.o.Logger.Warn("cannot claim the ids of records that were accepted without; they are kept and claimed later",
				"tenant", f.b.topic.Tenant, "table", f.b.topic.Table, "retry_in", f.b.waits.fail().String(), "error", err)
			continue
		}
		f.b.waits.release()
	}
	f.dropOthers(i)
	if len(i.spans) == 0 {
		return nothing
	}
	return again
}

// claimChunk asks for those of the chunk's ids that are not known yet, a window at
// a time. What it learns stays known when it fails.
func (f *batch) claimChunk(c *held) error {
	if c.claim.own == nil {
		c.claim.own, c.claim.others = make([]bool, c.Rows), make([]bool, c.Rows)
	}
	var open []int
	for row := range c.Rows {
		if !c.claim.own[row] && !c.claim.others[row] {
			open = append(open, row)
		}
	}
	var waiting error
	for window := range slices.Chunk(open, dedupe.MaxWindow) {
		switch err := f.claimWindow(c, window); {
		case errors.Is(err, errInFlight):
			waiting = err
		case err != nil:
			return err
		}
	}
	c.claim.done = waiting == nil
	return waiting
}

func (f *batch) claimWindow(c *held, rows []int) error {
	var (
		store = f.w.o.Dedupe
		scope = dedupe.Scope{Tenant: c.topic.Tenant, Table: c.topic.Table}
		owner = dedupe.NewOwner()
		mark  = c.pos.AppendBinary(nil)
		ids   = make([]string, len(rows))
	)
	for n, row := range rows {
		ids[n] = c.IDs[row]
	}
	if store == nil {
		return dedupe.ErrUnavailable
	}
	found, err := store.Reserve(f.w.work, scope, owner, ids)
	if err != nil {
		return err
	}
	var commit []dedupe.Entry
	var reserved []int
	waiting := false
	for n, row := range rows {
		switch r := found[n]; r.State {
		case dedupe.New:
			commit, reserved = append(commit, dedupe.Entry{ID: ids[n], Value: mark}), append(reserved, row)
		case dedupe.Duplicate:
			mine := bytes.Equal(r.Value, mark)
			c.claim.own[row], c.claim.others[row] = mine, !mine
		case dedupe.InFlight:
			waiting = true
		}
	}
	if err := f.commitClaims(scope, owner, commit); err != nil {
		return err
	}
	for _, row := range reserved {
		c.claim.own[row] = true
	}
	if waiting {
		return errInFlight
	}
	return nil
}

// commitClaims commits reserved ids, or gives them up, so that the next attempt
// need not wait for them to lapse.
func (f *batch) commitClaims(scope dedupe.Scope, owner dedupe.Owner, entries []dedupe.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	lost, err := f.w.o.Dedupe.Commit(f.w.work, scope, owner, entries, f.settings.Retention)
	if err == nil && lost == 0 {
		return nil
	}
	ids := make([]string, len(entries))
	for n, e := range entries {
		ids[n] = e.ID
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.w.work), f.w.o.BackoffMin)
	defer cancel()
	_ = f.w.o.Dedupe.Release(ctx, scope, owner, ids)
	if err == nil {
		err = fmt.Errorf("%d reservations lapsed before they were committed", lost)
	}
	return err
}

// dropOthers settles the rows of an insertion whose ids are others'.
func (f *batch) dropOthers(i *insertion) {
	var own, others []span
	for _, s := range i.spans {
		if s.c.IDs == nil {
			own = append(own, s)
			continue
		}
		for from := s.from; from < s.to; {
			to, drop := from+1, s.c.claim.others[from]
			for to < s.to && s.c.claim.others[to] == drop {
				to++
			}
			if drop {
				others = append(others, s.part(from, to))
				s.c.dropped += to - from
			} else {
				own = append(own, s.part(from, to))
			}
			from = to
		}
	}
	if len(others) > 0 {
		i.spans = own
		f.w.metrics.repeated(f.b.topic, i.of(others...).rows())
		f.done(others)
	}
}
