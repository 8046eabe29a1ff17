package insert

import (
	"errors"
	"strconv"
	"strings"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/mq"
)

// wideSplit is into how many parts a refused job is split when refusals come
// one after another: many rows are bad then, and halving finds them slowly.
const (
	wideSplit  = 16
	wideStreak = 6
)

// refuse narrows a refusal down; single rows are parked or kept.
func (f *flight) refuse(j job, err error) []job {
	if !j.text && j.shape.format == mq.FormatRowBinary && typesChanged(err) {
		if readable := f.pair(j); len(readable.spans) > 0 {
			readable.text = true
			return []job{readable}
		}
		return nil
	}
	j = f.pair(j)
	switch {
	case len(j.spans) == 0:
		return nil
	case j.rows() == 1 || sameForEveryRow(err):
		f.reject(j, err)
		return nil
	case f.streak > wideStreak:
		return j.split(wideSplit)
	}
	if at, ok := rowAtFault(err); ok && at < j.rows() {
		return j.around(at)
	}
	return j.split(2)
}

// rowAtFault finds the row that ClickHouse names in its refusal, from 0. It is
// a hint where to look, no more: the row is judged by an INSERT of its own.
func rowAtFault(err error) (int, bool) {
	_, rest, ok := strings.Cut(err.Error(), "at row ")
	if !ok {
		return 0, false
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(rest)
	}
	n, err := strconv.Atoi(rest[:end])
	return n - 1, err == nil && n > 0
}

// reject parks rows that ClickHouse refuses, or keeps them.
func (f *flight) reject(j job, err error) {
	if f.park {
		f.parkJob(j, err)
		return
	}
	f.refusal = err
	j.text = false
	if n := len(f.refused); n > 0 && f.refused[n-1].shape == j.shape {
		f.refused[n-1].spans = append(f.refused[n-1].spans, j.spans...)
		return
	}
	f.refused = append(f.refused, j)
}

// codeIncorrectData is the exception of a header whose types are not the
// table's.
const codeIncorrectData = 117

// tableWide are the refusals that hold for every row of an INSERT alike: there
// is nothing to narrow down.
var tableWide = map[int]bool{
	8: true, 10: true, 16: true, 47: true, // columns that do not exist
	60: true, 73: true, 218: true, // the table, the format
}

func exceptionCode(err error) int {
	var e *clickhouse.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

func typesChanged(err error) bool { return exceptionCode(err) == codeIncorrectData }

func sameForEveryRow(err error) bool { return tableWide[exceptionCode(err)] }
