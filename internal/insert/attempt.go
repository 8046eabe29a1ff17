package insert

import (
	"errors"
	"time"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
)

// verdict is what became of a job, once it is known.
type verdict uint8

const (
	verdictStored   verdict = iota
	verdictRefused          // ClickHouse refuses these rows, together
	verdictTooMuch          // fewer at a time may pass
	verdictHomeless         // there is no ClickHouse for them
	verdictHandBack         // the queue keeps them meanwhile
	verdictStop             // the worker stops; the queue keeps them
)

// errNotServed is the reason of rows whose tenant is gone.
var errNotServed = errors.New("the tenant is not served")

// attempt tries a job until there is a verdict. What can heal by itself is
// waited for, and the job is then repeated unchanged.
func (f *flight) attempt(j *job) (verdict, error) {
	var homelessSince time.Time
	for {
		if v, ok := f.wait(j, f.b.waits); !ok {
			return v, nil
		}
		ins, err := f.w.o.Pool(f.b.topic.Tenant)
		if err == nil {
			var v verdict
			var settled bool
			if v, settled, err = f.try(j, ins); settled {
				return v, err
			}
			if clickhouse.Classify(err) != clickhouse.ClassNoPool {
				homelessSince = time.Time{}
				continue
			}
		}
		if homelessSince.IsZero() {
			homelessSince = time.Now()
		}
		if v, reason := f.homeless(err, homelessSince); v == verdictHomeless {
			f.b.waits.succeed()
			return v, reason
		}
	}
}

// wait passes a backoff. Rows that may be written already are never handed
// back: only this process can repeat their INSERT unchanged.
func (f *flight) wait(j *job, b *backoff) (verdict, bool) {
	giveUp := f.b.giveUp
	if !j.untouched() {
		giveUp = nil
	} else if _, _, left, on := b.active(); on && left > 0 && b == f.b.waits && f.w.held.Wanted(f.b.topic.Tenant) {
		return verdictHandBack, false
	}
	switch b.enter(f.w.stopping, giveUp) {
	case passStop:
		return verdictStop, false
	case passGiveUp:
		return verdictHandBack, false
	}
	if f.w.work.Err() != nil {
		b.release()
		return verdictStop, false
	}
	return 0, true
}

// homeless decides about rows without a pool. A served tenant's pool may only
// be late: it is waited for before anything is parked.
func (f *flight) homeless(err error, since time.Time) (verdict, error) {
	s := f.w.o.Settings(f.b.topic.Tenant, f.b.topic.Table)
	switch {
	case !s.Served:
		return verdictHomeless, errNotServed
	case s.Park && time.Since(since) >= f.w.o.NoPoolGrace:
		return verdictHomeless, err
	}
	f.failed(f.b.waits, clickhouse.ClassNoPool, err)
	return verdictStop, nil
}

// try makes one INSERT. It is settled when there is a verdict; otherwise the
// failure was noted in the backoff it belongs to.
func (f *flight) try(j *job, ins Inserter) (v verdict, settled bool, err error) {
	pool := f.w.pools.get(ins.Name())
	defer f.w.pools.put(ins.Name(), pool)
	if v, ok := f.wait(j, pool); !ok {
		f.b.waits.release()
		return v, true, nil
	}
	class, err := f.insert(j, ins)
	if class == clickhouse.ClassSplittable && j.rows() == 1 {
		class = clickhouse.ClassUnavailable
		pool.succeed()
		f.failed(f.b.waits, class, err)
		return 0, false, err
	}
	switch class {
	case classStored, clickhouse.ClassRejected, clickhouse.ClassSplittable:
		pool.succeed()
		f.b.waits.succeed()
		return settledVerdict(class), true, err
	case clickhouse.ClassNoPool:
		pool.release()
		return 0, false, err
	}
	j.uncertain = j.uncertain || exceptionCode(err) == 0
	if clickhouse.TableOwn(err) {
		pool.succeed()
		f.failed(f.b.waits, class, err)
		return 0, false, err
	}
	f.b.waits.release()
	f.failed(pool, class, err)
	return 0, false, err
}

// failed begins a backoff's next window and says so.
func (f *flight) failed(b *backoff, class clickhouse.Class, err error) {
	wait := b.fail(err.Error())
	f.w.o.Logger.Warn("cannot write to ClickHouse; the rows are kept and tried again",
		"tenant", f.b.topic.Tenant, "table", f.b.topic.Table, "class", class.String(), "retry_in", wait.String(), "error", err)
}
