package insert

import (
	"context"
	"errors"
	"time"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
)

// verdict is what became of an attempt.
type verdict uint8

const (
	again      verdict = iota // not now; what is waited for has a backoff
	stored                    // written
	partly                    // written but for those that are absent
	refused                   // ClickHouse refuses these rows, together
	tooMuch                   // fewer at a time may pass
	doubtful                  // they fail again and again, and nobody says why
	noPool                    // there is no way to ClickHouse
	unserved                  // nor will there be: they are parked
	unreadable                // these are no rows
	notNow                    // the queue keeps them meanwhile
	stopped                   // the worker stops; the queue keeps them
	nothing                   // there is nothing to insert
)

// errNotServed is the reason of rows whose tenant is gone.
var errNotServed = errors.New("the tenant is not served")

// attempt tries an insertion until there is a verdict. What can heal by itself
// is waited for, and the insertion is then repeated unchanged.
func (f *batch) attempt(i *insertion) (verdict, error) {
	if i.form == nil {
		return unreadable, nil
	}
	if v := f.claimIDs(i); v != again {
		return v, nil
	}
	var since time.Time // when the pool was first missed
	for {
		v, err := f.try(i)
		switch v {
		case again:
			since = time.Time{}
			continue
		case noPool:
			if since.IsZero() {
				since = time.Now()
			}
			if err = f.withoutPool(err, since); err == nil {
				continue
			}
			v = unserved
		}
		return v, err
	}
}

// try makes one INSERT, as soon as the table and its pool may be tried. A
// failure that can heal is noted in the backoff that it belongs to.
func (f *batch) try(i *insertion) (verdict, error) {
	if v := f.pass(i, f.b.waits); v != again {
		return v, nil
	}
	way, err := f.w.o.Pool(f.b.topic.Tenant)
	if err != nil {
		return noPool, err
	}
	pool := f.w.pools.get(way.Name())
	defer f.w.pools.put(way.Name(), pool)
	if v := f.pass(i, pool); v != again {
		f.b.waits.release()
		return v, nil
	}
	class, err := f.insert(i, way)
	switch {
	case err == nil, class == clickhouse.ClassRejected, class == clickhouse.ClassSplittable && i.rows() > 1:
		pool.succeed()
		f.b.waits.succeed()
		if len(i.absent) > 0 {
			return partly, nil
		}
		return answered(class, err), err
	case class == clickhouse.ClassNoPool:
		pool.release()
		return noPool, err
	case class == clickhouse.ClassSplittable:
		pool.succeed()
		f.failed(f.b.waits, clickhouse.ClassUnavailable, err)
		return again, nil
	}
	i.uncertain = i.uncertain || exceptionCode(err) == 0
	if clickhouse.TableOwn(err) {
		pool.succeed()
		f.failed(f.b.waits, class, err)
	} else {
		f.b.waits.release()
		f.failed(pool, class, err)
	}
	if class == clickhouse.ClassUnknown && exceptionCode(err) != 0 {
		if i.doubts++; i.doubts >= maxDoubts {
			return doubtful, err
		}
	}
	return again, nil
}

// maxDoubts is how often rows fail with a code that blames nobody before it is
// tried which of them fail alone.
const maxDoubts = 5

// answered is the verdict of an INSERT that ClickHouse judged.
func answered(class clickhouse.Class, err error) verdict {
	switch {
	case err == nil:
		return stored
	case class == clickhouse.ClassSplittable:
		return tooMuch
	}
	return refused
}

// pass waits until b lets an attempt through, which is the verdict again. Rows
// that may be written already are never handed back: only this process can
// repeat their INSERT unchanged.
func (f *batch) pass(i *insertion, b *backoff) verdict {
	giveUp := f.b.giveUp
	if !i.untouched() {
		giveUp = nil
	} else if left, _ := f.b.waits.waiting(); b == f.b.waits && left > 0 && f.w.memory.Wanted(f.b.topic.Tenant) {
		return notNow
	}
	switch b.enter(f.b.stopped, giveUp) {
	case passStop:
		return stopped
	case passGiveUp:
		return notNow
	}
	if f.w.work.Err() != nil {
		b.release()
		return stopped
	}
	return again
}

// withoutPool decides about rows that have no way to ClickHouse. A served
// tenant's pool may only be late: it is waited for before anything is parked.
// The error is why the rows are parked; nil says that they are not yet.
func (f *batch) withoutPool(err error, since time.Time) error {
	s := f.w.o.Settings(f.b.topic.Tenant, f.b.topic.Table)
	switch {
	case !s.Served && !s.Waits:
		err = errNotServed
	case s.Waits, !s.Park || time.Since(since) < f.w.o.NoPoolGrace:
		f.failed(f.b.waits, clickhouse.ClassNoPool, err)
		return nil
	}
	f.b.waits.succeed()
	return err
}

// failed begins a backoff's next window and says so.
func (f *batch) failed(b *backoff, class clickhouse.Class, err error) {
	wait := b.fail()
	f.w.o.Logger.Warn("cannot write to ClickHouse; the rows are kept and tried again",
		"tenant", f.b.topic.Tenant, "table", f.b.topic.Table, "class", class.String(), "retry_in", wait.String(), "error", err)
}

// insert sends the rows once. Those of an INSERT that was answered already are
// only looked for.
func (f *batch) insert(i *insertion, way Inserter) (clickhouse.Class, error) {
	ctx, cancel := context.WithTimeout(f.w.work, f.w.o.InsertTimeout)
	defer cancel()
	started := time.Now()
	var err error
	if i.looks == 0 {
		err = f.send(ctx, i, way)
	}
	if err == nil && i.uncertain {
		i.absent, err = f.absent(ctx, i, way)
	}
	if err == nil {
		f.w.metrics.insert("stored", time.Since(started))
		return 0, nil
	}
	class := classify(err)
	f.w.metrics.insert(class.String(), time.Since(started))
	return class, err
}

func (f *batch) send(ctx context.Context, i *insertion, way Inserter) error {
	f.note(i)
	if !i.uncertain && i.since.IsZero() {
		i.since = time.Now()
	}
	body := i.body()
	return way.Insert(ctx, clickhouse.Request{
		SQL: i.statement(f.b.topic.Table), Body: body, BodyBytes: int64(body.left), Settings: i.settings(),
		Rows: i.rows(), Repeat: i.uncertain,
	})
}

// classify is clickhouse.Classify, except for refusals of the settings we
// send: those say nothing about the rows.
func classify(err error) clickhouse.Class {
	switch exceptionCode(err) {
	case 115, 452: // UNKNOWN_SETTING, SETTING_CONSTRAINT_VIOLATION
		return clickhouse.ClassDenied
	}
	return clickhouse.Classify(err)
}

func exceptionCode(err error) int {
	if e, ok := errors.AsType[*clickhouse.Error](err); ok {
		return e.Code
	}
	return 0
}
