package insert

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
)

const (
	// maxLooks is how often it is tried to look for the rows of an INSERT.
	maxLooks = 3
	// clockSkew is how far the clocks of two processes may be apart.
	clockSkew = time.Minute
)

// absent looks for the rows of an INSERT that was repeated and is answered as
// written, where the table's word is in doubt, and returns those that are not
// there. Where they cannot be looked for all of them count as absent: a row that
// is written twice is better than one that is lost. The error is one that can heal.
func (f *batch) absent(ctx context.Context, i *insertion, way Inserter) ([]int, error) {
	memory, err := way.Memory(ctx, f.b.topic.Table, f.ago(i))
	if err == nil && !memory.Doubtful {
		return nil, nil
	}
	var absent []int
	if err == nil {
		absent, err = f.look(ctx, *i, way, memory)
	}
	if i.looks++; err != nil && i.looks < maxLooks && classify(err) == clickhouse.ClassUnavailable {
		return nil, err
	}
	if err != nil || memory.Replaces && len(absent) > 0 {
		absent = absent[:0]
		for row := range i.rows() {
			absent = append(absent, row)
		}
	}
	if len(absent) > 0 {
		f.w.o.Logger.Warn("ClickHouse was started while an INSERT ran, and took the repeat for stored; rows that are not there, or cannot be looked for, are written again",
			"tenant", f.b.topic.Tenant, "table", f.b.topic.Table, "rows", i.rows(), "again", len(absent), "error", err)
	}
	return absent, nil
}

// ago is how long ago the first INSERT of the rows was begun, at most.
func (f *batch) ago(i *insertion) time.Duration {
	if !i.since.IsZero() {
		return time.Since(i.since)
	}
	oldest := slices.MinFunc(i.spans, func(a, b span) int { return a.c.header.Received.Compare(b.c.header.Received) })
	return f.w.o.Now().Sub(oldest.c.header.Received) + clockSkew
}

var errNothingToCompare = errors.New("the table stores none of the columns that were sent")

func (f *batch) look(ctx context.Context, i insertion, way Inserter, memory clickhouse.Memory) ([]int, error) {
	sought := clickhouse.Sought{
		Table: f.b.topic.Table, Names: i.form.Layout.Names(), Types: i.form.Layout.Types(), Format: i.format(), Data: i.body(),
		Rows: i.rows(), Within: f.ago(&i), Settings: i.settings(), Printed: "RowBinary",
	}
	if i.form.Text() {
		sought.Printed = "JSONCompactEachRow" // the paths of a JSON in order; in RowBinary they are in a part's
	}
	for _, name := range sought.Names {
		if memory.Stored[name] {
			sought.Compared = append(sought.Compared, name)
		}
	}
	if len(sought.Compared) == 0 {
		return nil, errNothingToCompare
	}
	for _, s := range i.spans {
		if err := s.c.Split(); err != nil {
			return nil, err
		}
	}
	return way.Absent(ctx, sought)
}

// renew parts the rows that are there from those that are absent. These are
// written again, under a token that the table does not know.
func (f *batch) renew(i insertion) (parts []insertion) {
	absent, first := i.absent, 0
	i.absent = nil
	var there, again []span
	for _, s := range i.spans {
		for from := s.from; from < s.to; {
			gone := len(absent) > 0 && absent[0] == first
			to := from
			for ; to < s.to && (len(absent) > 0 && absent[0] == first) == gone; to++ {
				if first++; gone {
					absent = absent[1:]
				}
			}
			if gone {
				again = append(again, s.part(from, to))
			} else {
				there = append(there, s.part(from, to))
			}
			from = to
		}
	}
	if len(there) > 0 {
		f.settle(i.of(there...), stored, nil)
	}
	renewed := i.of(again...)
	renewed.uncertain, renewed.since, renewed.looks = false, time.Time{}, 0
	renewed.renewed++
	return []insertion{renewed}
}
