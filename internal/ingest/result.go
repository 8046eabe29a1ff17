package ingest

import (
	"cmp"
	"slices"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
)

// MaxResults bounds the entries of a Result; the counts are exact beyond it.
const MaxResults = 10_000

// Result says what became of the records of one request. It accompanies an
// error too: what was accepted before stays accepted.
type Result struct {
	// Single says that the body was one object; its verdict is then the answer.
	Single bool
	// Total is Succeeded + Failed + Duplicates. Succeeded records are durable.
	Total, Succeeded, Failed, Duplicates int
	// Results holds failures and duplicates, and successes when asked for, by
	// Index.
	Results []RecordResult
	// Truncated says that Results is not complete.
	Truncated bool
	// Replayed says that the request was answered before, under its key.
	Replayed bool
	// Places holds the places of all accepted records, when asked for.
	Places []Place

	// failedBy counts the failed records by code.
	failedBy map[string]int
	// withoutID counts accepted and failed records that sent no id where ids
	// are remembered.
	withoutID int
	// deferred counts accepted records whose ids are claimed later.
	deferred int
}

// Place is where records that follow one another are in the queue.
type Place struct {
	// Chunk is the message, Row the index in it of the first record.
	Chunk mq.Position
	Row   int
	// First and Count are of the records, counted from 1.
	First, Count int
}

// RecordResult is one record's verdict.
type RecordResult struct {
	// Index counts the body's records from 1.
	Index     int
	OK        bool
	Duplicate bool
	// Code, Column and Message say why a record failed, and Hint what can be done
	// about it; Column and Hint may be "".
	Code, Column, Message, Hint string
}

func (r *Result) add(v RecordResult) {
	if len(r.Results) >= MaxResults {
		r.Truncated = true
		return
	}
	r.Results = append(r.Results, v)
}

// fail counts records that were not stored.
func (r *Result) fail(code string, n int) {
	r.Failed += n
	if r.failedBy == nil {
		r.failedBy = make(map[string]int)
	}
	r.failedBy[code] += n
}

// refuse counts a record that its own verdict kept out.
func (r *Result) refuse(index int, err *record.Error) {
	r.Total++
	r.fail(err.Code, 1)
	r.add(RecordResult{Index: index, Code: err.Code, Column: err.Column, Message: err.Message, Hint: err.Hint})
}

// settle counts the rows of a piece whose publish ended with err.
func (r *Result) settle(p *piece, err *Error, successes bool) {
	if err == nil {
		r.Succeeded += p.rows
		if successes {
			r.addRuns(p.runs, RecordResult{OK: true})
		}
		return
	}
	r.fail(err.Code, p.rows)
	r.addRuns(p.runs, RecordResult{Code: err.Code, Message: err.Message})
}

// hold counts a record of a window, whose leader is the first with its id.
func (r *Result) hold(h, leader *candidate, successes bool) {
	v := RecordResult{Index: h.index}
	switch err := leader.err; {
	case err != nil:
		r.fail(err.Code, 1)
		v.Code, v.Message = err.Code, err.Message
	case leader.duplicate || h != leader:
		r.Duplicates++
		v.Duplicate = true
	default:
		r.Succeeded++
		if v.OK = true; !successes {
			return
		}
	}
	r.add(v)
}

// place notes where the rows of a piece are.
func (r *Result) place(p *piece) {
	row := p.at
	for _, run := range p.runs {
		r.Places = append(r.Places, Place{Chunk: p.chunk, Row: row, First: run.first, Count: run.count})
		row += run.count
	}
}

func (r *Result) addRuns(runs []run, v RecordResult) {
	for _, run := range runs {
		for i := range run.count {
			v.Index = run.first + i
			r.add(v)
			if r.Truncated {
				return
			}
		}
	}
}

func (r *Result) sort() {
	slices.SortFunc(r.Results, func(a, b RecordResult) int { return cmp.Compare(a.Index, b.Index) })
}
