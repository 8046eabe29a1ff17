package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/wavehouse/wavehouse/internal/ingest"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/notice"
	"github.com/wavehouse/wavehouse/internal/record"
)

const (
	// defaultInsertWait and maxInsertWait bound how long ?wait=inserted waits.
	defaultInsertWait = 10 * time.Second
	maxInsertWait     = time.Minute
	// retryWait is when to ask again while too many wait.
	retryWait = time.Second
	// codeDeadLettered is the code of a record that ClickHouse refused after it
	// had been accepted: it is a dead letter, and need not be sent again.
	codeDeadLettered = "record.dead_lettered"
)

// Inserts tells what becomes of chunks after they are durable.
type Inserts interface {
	Watch(t mq.Topic) (*ingest.Watch, error)
}

// insertWait is a request that waits for its rows to be in ClickHouse.
type insertWait struct {
	watch *ingest.Watch
	until time.Time
}

// insertTimeout reads ?wait=inserted&timeout=; 0 is not to wait.
func insertTimeout(c *request) (time.Duration, error) {
	value, err := oneOf(c.query, "wait", "inserted")
	if err != nil {
		return 0, err
	}
	text, limited, err := one(c.query, "timeout")
	switch {
	case err != nil:
		return 0, err
	case value == "" && limited:
		return 0, problem(http.StatusBadRequest, "query_string.invalid", "timeout goes with wait=inserted")
	case value == "":
		return 0, nil
	case !limited:
		return defaultInsertWait, nil
	}
	timeout, err := time.ParseDuration(text)
	if err != nil || timeout <= 0 || timeout > maxInsertWait {
		return 0, problem(http.StatusBadRequest, "query_string.invalid", "timeout must be a duration of up to 60s, like 10s or 500ms")
	}
	return timeout, nil
}

// waitForInsert begins to watch, before anything is stored; nil does not wait.
func (s *Server) waitForInsert(t mq.Topic, timeout time.Duration) (*insertWait, error) {
	if timeout == 0 {
		return nil, nil
	}
	watch, err := s.Inserts.Watch(t)
	if err != nil {
		return nil, problem(http.StatusServiceUnavailable, "ingest.too_many_waiting",
			"too many requests wait for their rows to be inserted: nothing of this one is stored").retryable(retryWait).because(err)
	}
	return &insertWait{watch: watch, until: time.Now().Add(timeout)}, nil
}

func (w *insertWait) close() {
	if w != nil {
		w.watch.Close()
	}
}

// settled waits for the chunks of a result, until the time is up, the caller
// leaves, or the server stops.
func (s *Server) settled(ctx context.Context, w *insertWait, result *ingest.Result) map[mq.Position]ingest.Settled {
	ctx, cancel := context.WithDeadline(ctx, w.until)
	defer cancel()
	defer context.AfterFunc(s.ending, cancel)()
	var chunks []mq.Position
	for _, p := range result.Places {
		if n := len(chunks); n == 0 || chunks[n-1] != p.Chunk {
			chunks = append(chunks, p.Chunk)
		}
	}
	return w.watch.Wait(ctx, chunks)
}

// answerInserted waits, and answers with what is known then.
func (s *Server) answerInserted(ctx context.Context, w http.ResponseWriter, c *request, wait *insertWait, result ingest.Result, all bool) error {
	settled := s.settled(ctx, wait, &result)
	if err := ctx.Err(); err != nil {
		return err
	}
	dead, inserted := deadLettered(&result, settled)
	for index, row := range dead {
		dead[index] = c.discreetly(row)
	}
	if result.Single {
		return answerSingleInserted(w, result, dead, inserted)
	}
	merge(&result, dead, all)
	status := http.StatusOK
	if !inserted {
		status = http.StatusAccepted
	}
	answer := map[string]any{
		"total": result.Total, "succeeded": result.Succeeded, "failed": result.Failed, "duplicates": result.Duplicates,
		"dead_lettered": len(dead), "inserted": inserted, "results": resultEntries(result),
	}
	if result.Truncated {
		answer["results_truncated"] = true
	}
	return writeJSON(w, status, answer)
}

// deadLettered finds the records that became dead letters, by index, and says
// whether all others are in ClickHouse.
func deadLettered(result *ingest.Result, settled map[mq.Position]ingest.Settled) (dead map[int]notice.ParkedRow, inserted bool) {
	dead, inserted = map[int]notice.ParkedRow{}, true
	for _, p := range result.Places {
		s, ok := settled[p.Chunk]
		if !ok || s.Unknown {
			inserted = false
		}
		for _, row := range s.Parked {
			if n := row.Row - p.Row; n >= 0 && n < p.Count {
				dead[p.First+n] = row
			}
		}
	}
	return dead, inserted
}

// merge counts dead letters apart and names them in the results.
func merge(result *ingest.Result, dead map[int]notice.ParkedRow, all bool) {
	if len(dead) == 0 {
		return
	}
	result.Succeeded -= len(dead)
	if all {
		for i := range result.Results {
			if row, ok := dead[result.Results[i].Index]; ok {
				result.Results[i] = deadResult(result.Results[i].Index, row)
			}
		}
		return
	}
	for index, row := range dead {
		result.Results = append(result.Results, deadResult(index, row))
	}
	slices.SortFunc(result.Results, func(a, b ingest.RecordResult) int { return a.Index - b.Index })
	if len(result.Results) > ingest.MaxResults {
		result.Results, result.Truncated = result.Results[:ingest.MaxResults], true
	}
}

func deadResult(index int, row notice.ParkedRow) ingest.RecordResult {
	return ingest.RecordResult{Index: index, Code: codeDeadLettered, Message: row.Message}
}

func answerSingleInserted(w http.ResponseWriter, result ingest.Result, dead map[int]notice.ParkedRow, inserted bool) error {
	for _, row := range dead {
		return &record.Error{Code: codeDeadLettered, Message: row.Message}
	}
	if result.Succeeded == 0 {
		return answerSingle(w, result)
	}
	status := http.StatusOK
	if !inserted {
		status = http.StatusAccepted
	}
	return writeJSON(w, status, map[string]bool{"ok": true, "inserted": inserted})
}
