package integration

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
)

// waited is the answer to a body that waited for its rows.
type waited struct {
	Total        int      `json:"total"`
	Succeeded    int      `json:"succeeded"`
	Failed       int      `json:"failed"`
	Duplicates   int      `json:"duplicates"`
	DeadLettered int      `json:"dead_lettered"`
	Inserted     bool     `json:"inserted"`
	Results      []result `json:"results"`
}

// wait posts a body and waits for its rows, as long as may be unless query, which is
// added to the URL, says for how long.
func (s *server) wait(table, query, body, contentType string) answer {
	s.t.Helper()
	if !strings.Contains(query, "&timeout=") {
		query += "&timeout=55s"
	}
	return s.do(http.MethodPost, "/v1/ingest?wait=inserted&table="+table+query, body, "Content-Type", contentType)
}

const ndjsonType = "application/x-ndjson"

func TestRowsAreThereWhenTheAnswerIs(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	want := 0
	for _, body := range []struct {
		contentType, text string
		rows              int
	}{
		{"application/json", `{"event_id":"one","page":"/"}`, 1},
		{"application/json", `[{"event_id":"two","page":"/"},{"event_id":"three","page":"/","n":5}]`, 2},
		{ndjsonType, lines("nd", 2500), 2500},
		{"text/csv", "event_id,page\nc1,/\nc2,/\n", 2},
		{"text/tab-separated-values", "event_id\tpage\nt1\t/\n", 1},
	} {
		a := s.wait("pages", "&timeout=55s", body.text, body.contentType)
		require.Equal(t, http.StatusOK, a.status, a.body)
		want += body.rows
		assert.Equal(t, want, s.ch.Count(t, "pages"), body.contentType)
		// A result that was cached before is not an answer any more.
		assert.Equal(t, fmt.Sprintf(`{"n":%d}`, want), compact(t, s.rows("pages", countPages)[0]))
		if body.rows == 1 && body.contentType == "application/json" {
			assert.JSONEq(t, `{"ok":true,"inserted":true}`, a.body)
			continue
		}
		got := decode[waited](t, a)
		assert.Equal(t, waited{Total: body.rows, Succeeded: body.rows, Inserted: true, Results: got.Results}, got)
		assert.Empty(t, got.Results)
	}
	got := decode[waited](t, s.wait("pages", "&results=all", lines("all", 3), ndjsonType))
	assert.True(t, got.Inserted)
	require.Len(t, got.Results, 3)
	assert.True(t, got.Results[2].OK)
}

func TestManyWaitAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, guardedTable)
	var group sync.WaitGroup
	answers := make(chan answer, 40)
	for i := range 40 {
		group.Go(func() {
			n := i
			if i%4 == 0 {
				n = 5000 // refused by the table's constraint
			}
			a, err := s.try(http.MethodPost, "/v1/ingest?table=guarded&wait=inserted&timeout=55s",
				strings.NewReader(fmt.Sprintf(`{"id":"w%d","n":%d}`, i, n)), "Content-Type", "application/json")
			if err == nil {
				answers <- a
			}
		})
	}
	group.Wait()
	close(answers)
	stored, refusedRows := 0, 0
	for a := range answers {
		if a.status == http.StatusOK {
			stored++
			assert.JSONEq(t, `{"ok":true,"inserted":true}`, a.body)
			continue
		}
		refusedRows++
		refused(t, a, http.StatusBadRequest, "record.dead_lettered")
		assert.Contains(t, a.body, "ClickHouse refused the record: VIOLATED_CONSTRAINT")
		assert.NotContains(t, a.body, "Expression", "its words are not everybody's")
	}
	assert.Equal(t, []int{30, 10}, []int{stored, refusedRows})
	assert.Equal(t, 30, s.ch.Count(t, "guarded"))
	assert.Equal(t, 10, s.parked())
}

func TestWaitingSaysWhichRecordsAreDeadLetters(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, guardedTable)
	body := guardedLines(1200, func(i int) bool { return i == 0 || i == 700 || i == 1199 }) + `{"id":"x","nope":1}` + "\n"
	for _, all := range []string{"", "&results=all"} {
		a := s.wait("guarded", "&timeout=55s"+all, body, ndjsonType)
		require.Equal(t, http.StatusOK, a.status, a.body)
		got := decode[waited](t, a)
		assert.Equal(t, waited{Total: 1201, Succeeded: 1197, Failed: 1, DeadLettered: 3, Inserted: true, Results: got.Results}, got)
		var dead []int
		for _, r := range got.Results {
			if r.Code == "record.dead_lettered" {
				dead = append(dead, r.Index)
				assert.Equal(t, "ClickHouse refused the record: VIOLATED_CONSTRAINT", r.Error)
			}
		}
		assert.Equal(t, []int{1, 701, 1200}, dead)
		if all == "" {
			require.Len(t, got.Results, 4)
			assert.Equal(t, "record.unknown_column", got.Results[3].Code)
		} else {
			require.Len(t, got.Results, 1201)
		}
	}
	assert.Equal(t, 2*1197, s.ch.Count(t, "guarded"))
	assert.Equal(t, 6, s.parked())
	// The operator is told all of it.
	told := s.do(http.MethodPost, "/v1/ingest?wait=inserted&timeout=55s&table=guarded", `{"id":"o","n":5000}`,
		"Content-Type", "application/json", "X-Operator-Key", operatorKey)
	assert.Contains(t, refused(t, told, http.StatusBadRequest, "record.dead_lettered").Error, "small")
	// Nothing accepted is nothing to wait for.
	got := decode[waited](t, s.wait("guarded", "", `[{"id":"x","nope":1}]`, "application/json"))
	assert.True(t, got.Inserted)
	assert.Equal(t, 1, got.Failed)
	refused(t, s.wait("guarded", "", `{"id":"x","nope":1}`, "application/json"), http.StatusBadRequest, "record.unknown_column")
}

func TestWaitingForAClickHouseThatIsAway(t *testing.T) {
	t.Parallel()
	s := behindProxy(t, options{}, pagesTable)
	s.o.proxy.Refuse()
	began := time.Now()
	a := s.wait("pages", "&timeout=300ms", `{"event_id":"1","page":"/"}`, "application/json")
	assert.Equal(t, http.StatusAccepted, a.status)
	assert.JSONEq(t, `{"ok":true,"inserted":false}`, a.body)
	assert.GreaterOrEqual(t, time.Since(began), 300*time.Millisecond)
	a = s.wait("pages", "&timeout=300ms", lines("a", 3), ndjsonType)
	assert.Equal(t, http.StatusAccepted, a.status)
	assert.JSONEq(t, `{"total":3,"succeeded":3,"failed":0,"duplicates":0,"dead_lettered":0,"inserted":false,"results":[]}`, a.body)
	s.o.proxy.Pass(t)
	s.stored("pages", 4)
	assert.Zero(t, s.parked())
}

func TestWaitingThatCannotBeMeant(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	for _, query := range []string{
		"&wait=durable", "&wait=INSERTED", "&wait=inserted&wait=inserted", "&timeout=5s", "&wait=&timeout=5s",
		"&wait=inserted&timeout=", "&wait=inserted&timeout=0s", "&wait=inserted&timeout=-1s", "&wait=inserted&timeout=61s",
		"&wait=inserted&timeout=5", "&wait=inserted&timeout=soon", "&wait=inserted&timeout=1s&timeout=2s",
	} {
		a := s.do(http.MethodPost, "/v1/ingest?table=pages"+query, `{"event_id":"1","page":"/"}`, "Content-Type", "application/json")
		refused(t, a, http.StatusBadRequest, "query_string.invalid")
	}
	a := s.do(http.MethodPost, "/v1/ingest?table=pages&wait=", `{"event_id":"1","page":"/"}`, "Content-Type", "application/json")
	assert.JSONEq(t, `{"ok":true}`, a.body)
	s.stored("pages", 1)
}

// A caller that leaves costs nothing, and its rows arrive.
func TestACallerThatWaitsAndLeaves(t *testing.T) {
	t.Parallel()
	s := behindProxy(t, options{logLevel: "debug"}, pagesTable)
	s.o.proxy.Set(clickhousetest.Hang())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/ingest?table=pages&wait=inserted&timeout=60s",
			strings.NewReader(`{"event_id":"1","page":"/"}`))
		if err == nil {
			request.Header.Set("Content-Type", "application/json")
			_, err = s.client.Do(request) //nolint:bodyclose // there is no answer
		}
		ended <- err
	}()
	s.eventually(func() string {
		return unless(len(inserts(s.o.proxy, "pages")) > 0, "the INSERT is not under way")
	})
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	s.o.proxy.Set(clickhousetest.Pass())
	s.eventually(func() string {
		return unless(len(s.logs.lines(`"route":"/v1/ingest"`)) > 0, "the request did not end")
	})
	a := s.wait("pages", "&timeout=5s", `{"event_id":"2","page":"/"}`, "application/json")
	require.Contains(t, []int{http.StatusOK, http.StatusAccepted}, a.status)
}

// A stop answers those that wait: their rows are durable.
func TestAStopEndsTheWaits(t *testing.T) {
	t.Parallel()
	s := behindProxy(t, options{}, pagesTable)
	s.o.proxy.Refuse()
	answers := make(chan answer, 1)
	go func() {
		a, err := s.try(http.MethodPost, "/v1/ingest?table=pages&wait=inserted&timeout=60s",
			strings.NewReader(`{"event_id":"1","page":"/"}`), "Content-Type", "application/json")
		if err != nil {
			a.body = err.Error()
		}
		answers <- a
	}()
	s.eventually(func() string { return unless(len(s.logs.lines("cannot write to ClickHouse")) > 0, "not tried yet") })
	s.stop()
	a := <-answers
	assert.Equal(t, http.StatusAccepted, a.status, a.body)
	s.o.proxy.Pass(t)
	s.run()
	s.stored("pages", 1)
}

// A duplicate is not waited for; what is new beside it is.
func TestWaitingWithDuplicates(t *testing.T) {
	t.Parallel()
	s := start(t, options{config: map[string]string{"dedupe": `{"enabled":true,"id_field":"event_id"}`}}, pagesTable)
	const one = `{"event_id":"1","page":"/"}`
	assert.JSONEq(t, `{"ok":true,"inserted":true}`, s.wait("pages", "", one, "application/json").body)
	assert.JSONEq(t, `{"duplicate":true}`, s.wait("pages", "", one, "application/json").body)
	got := decode[waited](t, s.wait("pages", "&results=all", one+"\n"+`{"event_id":"2","page":"/"}`+"\n"+`{"event_id":"2","page":"/"}`, ndjsonType))
	assert.Equal(t, waited{Total: 3, Succeeded: 1, Duplicates: 2, Inserted: true, Results: got.Results}, got)
	require.Len(t, got.Results, 3)
	assert.True(t, got.Results[1].OK)
	assert.Equal(t, 2, s.ch.Count(t, "pages"))
	// The answer of a key that is used again is from memory.
	keyed := func() answer {
		return s.do(http.MethodPost, "/v1/ingest?table=pages&wait=inserted&timeout=55s", `{"event_id":"3","page":"/"}`,
			"Content-Type", "application/json", "Idempotency-Key", "k")
	}
	assert.JSONEq(t, `{"ok":true,"inserted":true}`, keyed().body)
	a := keyed()
	assert.Equal(t, "true", a.header.Get("Idempotent-Replayed"))
	assert.JSONEq(t, `{"duplicate":true}`, a.body)
	assert.Equal(t, 3, s.ch.Count(t, "pages"))
}
