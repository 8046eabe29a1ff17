package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// editedPolicy shows the rows of one organisation, and hides one column or
// another by the number of the edit.
func editedPolicy(edit int) string {
	return fmt.Sprintf(`{"tables":{"pages":{"viewer":{"select":{"deny_columns":[%q],"filter":{"org":{"_eq":"o%d"}}}}}}}`, hiddenAt(edit), edit)
}

func hiddenAt(edit int) string { return []string{"secret", "page"}[edit%2] }

// judgedBy returns the edit whose rule and columns, both, a row was shown by.
func judgedBy(t *testing.T, row json.RawMessage) int {
	t.Helper()
	edit, err := strconv.Atoi(strings.TrimPrefix(cell(t, row, "org"), "o"))
	require.NoError(t, err)
	assert.NotContains(t, string(row), `"`+hiddenAt(edit)+`"`, "the rule and the columns are those of one policy")
	return edit
}

// A row that is sent after a reload was answered is judged by the new policy, on
// streams that were open and on streams that replay, and so is every question;
// rows are written all the while.
func TestAdversaryEditsUnderAStreamOfRows(t *testing.T) {
	t.Parallel()
	const edits = 6
	s := start(t, options{policies: editedPolicy(0), logLevel: "error"}, pagesTable)
	viewer := as(t, "viewer")
	var edit, stop atomic.Int64
	var workers sync.WaitGroup
	defer func() { stop.Store(1); workers.Wait() }()

	streams := make([]*live, 3)
	seen := make([]atomic.Int64, len(streams)) // rows that were shown by the last edit
	for i := range streams {
		streams[i] = s.listen("pages", "", viewer...)
	}
	opening := streams[0].LastID()
	// Each record says which edit was in force when it was sent, and belongs to
	// an organisation that one of the edits shows.
	workers.Go(func() {
		for i := 0; stop.Load() == 0; i++ {
			var body strings.Builder
			for org := range edits + 1 {
				fmt.Fprintf(&body, `{"event_id":"%d-%d","page":"P","secret":"S","org":"o%d","n":%d}`+"\n", i, org, org, edit.Load())
			}
			a, err := s.try(http.MethodPost, "/v1/ingest?table=pages", strings.NewReader(body.String()), "Content-Type", "application/x-ndjson", "X-Operator-Key", operatorKey)
			if !assert.NoError(t, err) || !assert.Equal(t, http.StatusOK, a.status, a.body) {
				return
			}
		}
	})
	for i, l := range streams {
		workers.Go(func() {
			for stop.Load() == 0 {
				f, err := l.NextEvent()
				if err != nil || f.Event == "end" {
					return
				}
				r, err := f.Row()
				if err != nil {
					continue // a gap
				}
				at, _ := strconv.Atoi(cell(t, r.Row, "n"))
				by := judgedBy(t, r.Row)
				if !assert.GreaterOrEqual(t, by, at, "sent after edit %d, shown by edit %d: %s", at, by, r.Row) {
					return
				}
				if by == edits {
					seen[i].Add(1)
				}
			}
		})
	}
	for range 2 {
		workers.Go(func() {
			for stop.Load() == 0 {
				at := int(edit.Load())
				a, err := s.try(http.MethodPost, "/v1/query?table=pages", strings.NewReader(`{"select_all":true,"limit":5}`), viewer...)
				if !assert.NoError(t, err) || !assert.Equal(t, http.StatusOK, a.status, a.body) {
					return
				}
				var rows []json.RawMessage
				assert.NoError(t, json.Unmarshal([]byte(a.body), &rows))
				for _, row := range rows {
					assert.GreaterOrEqual(t, judgedBy(t, row), at, a.header.Get("X-Cache"))
				}
			}
		})
	}
	for next := 1; next <= edits && !t.Failed(); next++ {
		s.writeFile("policies.json", editedPolicy(next))
		require.Equal(t, http.StatusOK, s.reload().status)
		edit.Store(int64(next))
		// What was sent before is judged by today's policy when it is replayed.
		replay := s.listen("pages", opening, viewer...)
		for _, row := range replay.rows(3) {
			assert.Equal(t, next, judgedBy(t, row))
		}
		replay.Close()
	}
	s.eventually(func() string {
		for i := range seen {
			if seen[i].Load() < 10 && !t.Failed() {
				return fmt.Sprintf("stream %d has seen %d rows by the last edit", i, seen[i].Load())
			}
		}
		return ""
	})
	stop.Store(1)
	for _, l := range streams {
		l.Close()
	}
}

// A grant that is taken away is gone from the next row and the next call on.
func TestAdversaryGrantsThatAreTakenAway(t *testing.T) {
	t.Parallel()
	const granted = `{"tables":{"pages":{"viewer":{"select":{}},"writer":{"insert":{}}}}}`
	s := start(t, options{policies: granted}, pagesTable)
	s.adopt(strings.ReplaceAll(pipesFile("p", `"sql":"SELECT secret FROM pages ORDER BY secret"`), "public", "viewer"))
	viewer, writer := as(t, "viewer"), as(t, "writer")
	l := s.listen("pages", "", viewer...)
	opening := l.LastID()
	s.accept("pages", `{"event_id":"1","page":"/","secret":"before"}`, writer...)
	assert.Contains(t, string(l.rows(1)[0]), "before")
	s.stored("pages", 1)
	document := `{"select_all":true}`
	for range 2 { // the second from the cache
		assert.Contains(t, s.query("pages", document, viewer...).body, "before")
		assert.Contains(t, s.pipe("p", viewer...).body, "before")
	}
	s.writeFile("policies.json", `{"tables":{"pages":{"analyst":{"select":{}}}}}`)
	s.adopt(strings.ReplaceAll(pipesFile("p", `"sql":"SELECT secret FROM pages ORDER BY secret"`), "public", "analyst"))
	refused(t, s.query("pages", document, viewer...), http.StatusForbidden, "auth.forbidden")
	refused(t, s.pipe("p", viewer...), http.StatusForbidden, "auth.forbidden")
	refused(t, s.ingest("pages", `{"event_id":"2","page":"/"}`, writer...), http.StatusForbidden, "auth.forbidden")
	s.refusedStream("table=pages", opening, http.StatusForbidden, "auth.forbidden", viewer...)
	s.operator("pages", `{"event_id":"3","page":"/","secret":"after"}`)
	analyst := s.listen("pages", opening, as(t, "analyst")...)
	assert.Len(t, analyst.rows(2), 2)
	// The stream that was open shows nothing more; a role that is granted again
	// sees what comes from then on.
	assert.Equal(t, "access_revoked", l.event().EndReason())
	s.writeFile("policies.json", granted)
	require.Equal(t, http.StatusOK, s.reload().status)
	l = s.listen("pages", "", viewer...)
	s.operator("pages", `{"event_id":"4","page":"/","secret":"again"}`)
	assert.Contains(t, string(l.rows(1)[0]), "again")
}
