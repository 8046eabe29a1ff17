package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/dedupe"
	"github.com/wavehouse/wavehouse/internal/dedupe/pebble"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

var dedupeOn = map[string]string{"dedupe": `{"enabled":true}`}

func event(id, page string) string { return fmt.Sprintf(`{"event_id":%q,"page":%q}`, id, page) }

// storedPages are the pages of an id, in the order of their text.
func (s *server) storedPages(id string) string {
	return s.ch.Value(s.t, "SELECT arrayStringConcat(arraySort(groupArray(page)), ' ') FROM pages WHERE event_id = '"+id+"'")
}

func (s *server) once(a answer, body string) {
	s.t.Helper()
	require.Equal(s.t, http.StatusOK, a.status, a.body)
	require.JSONEq(s.t, body, a.body)
}

func TestDedupe(t *testing.T) {
	t.Parallel()
	s := start(t, options{config: dedupeOn}, pagesTable)
	s.once(s.ingest("pages", event("a", "/1")), `{"ok":true}`)
	s.once(s.ingest("pages", event("a", "/2")), `{"duplicate":true}`)
	// A repeat inside one batch.
	b := s.ingestLines("pages", event("y1", "/1")+"\n"+event("y1", "/2")+"\n"+event("y2", "/3")+"\n"+event("a", "/4")+"\n")
	assert.Equal(t, []int{4, 2, 2, 0}, []int{b.Total, b.Succeeded, b.Duplicates, b.Failed})
	a := s.ingest("pages", "["+event("y1", "/1")+"]")
	s.once(a, `{"total":1,"succeeded":0,"failed":0,"duplicates":1,"results":[{"index":1,"duplicate":true}]}`)
	s.stored("pages", 3)
	assert.Equal(t, "/1", s.storedPages("y1"))

	s.restart()
	s.once(s.ingest("pages", event("y2", "/5")), `{"duplicate":true}`)
	s.once(s.ingest("pages", event("z", "/6")), `{"ok":true}`)
	s.stored("pages", 4)
	metrics := s.do(http.MethodGet, "/metrics", "").body
	for _, want := range []string{
		`wavehouse_dedupe_ids_total{state="claimed"} 1`, `wavehouse_dedupe_ids_total{state="duplicate"} 1`, `wavehouse_dedupe_store_open 1`,
	} {
		assert.Contains(t, metrics, want)
	}
}

func TestDedupePerTable(t *testing.T) {
	t.Parallel()
	s := start(t, options{config: map[string]string{
		"dedupe": `{"tables":{"pages":{"enabled":true,"require_id":true},"hits":{"enabled":true,"id_field":"n"}}}`,
	}}, pagesTable,
		"CREATE TABLE hits (n UInt64, page String) ENGINE = MergeTree ORDER BY n",
		"CREATE TABLE plain (event_id String, page String) ENGINE = MergeTree ORDER BY event_id")
	for n, want := range []string{`{"ok":true}`, `{"duplicate":true}`} {
		s.once(s.ingest("pages", event("a", "/")), want)
		s.once(s.ingest("hits", []string{`{"n":18446744073709551615,"page":"/"}`, `{"n":"18446744073709551615","page":"/"}`}[n]), want)
		s.once(s.ingest("plain", event("a", "/")), `{"ok":true}`)
	}
	s.once(s.ingest("hits", `{"n":18446744073709551614,"page":"/"}`), `{"ok":true}`)
	for _, body := range []string{`{"page":"/"}`, `{"event_id":null,"page":"/"}`, `{"event_id":"","page":"/"}`} {
		p := refused(t, s.ingest("pages", body), http.StatusBadRequest, "record.missing_id")
		assert.Equal(t, "event_id", p.Column)
	}
	s.stored("plain", 2)
	s.stored("hits", 2)
	s.stored("pages", 1)
}

func TestFiftyCopiesAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t, options{config: dedupeOn}, pagesTable)
	answers := make([]answer, 50)
	var all sync.WaitGroup
	for n := range answers {
		all.Go(func() {
			var err error
			answers[n], err = s.try(http.MethodPost, "/v1/ingest?table=pages", strings.NewReader(event("a", "/")), "Content-Type", "application/json")
			assert.NoError(t, err)
		})
	}
	all.Wait()
	accepted := 0
	for _, a := range answers {
		switch {
		case a.status == http.StatusOK && strings.Contains(a.body, `"ok":true`):
			accepted++
		case a.status == http.StatusOK:
			assert.JSONEq(t, `{"duplicate":true}`, a.body)
		default:
			refused(t, a, http.StatusServiceUnavailable, "dedupe.in_flight")
			assert.Equal(t, "30", a.header.Get("Retry-After"))
		}
	}
	assert.Equal(t, 1, accepted)
	s.once(s.ingest("pages", event("a", "/")), `{"duplicate":true}`)
	s.stored("pages", 1)
}

// TestFullQueueThenRetry also covers a reload that turns dedupe on.
func TestFullQueueThenRetry(t *testing.T) {
	t.Parallel()
	s := behindProxy(t, options{config: map[string]string{"mq": `{"max_bytes_gb":"200KB"}`}}, pagesTable)
	s.o.config["dedupe"] = `{"enabled":true}`
	s.writeSettings()
	require.Equal(t, http.StatusOK, s.reload().status)
	s.o.proxy.Refuse()
	x1 := event("x1", "/"+strings.Repeat("x", 20_000))
	for n := 0; ; n++ {
		require.Less(t, n, 300)
		if a := s.do(http.MethodPost, "/v1/ingest?table=pages", lines(fmt.Sprint("r", n, "-"), 50), "Content-Type", ndjson); a.status != http.StatusOK {
			break
		}
	}
	a := s.ingest("pages", x1)
	refused(t, a, http.StatusServiceUnavailable, "queue.full")
	assert.NotEmpty(t, a.header.Get("Retry-After"))
	s.o.proxy.Pass(t)
	s.eventually(func() string {
		a = s.ingest("pages", x1)
		return unless(a.status == http.StatusOK, a.body)
	})
	s.once(a, `{"ok":true}`)
	s.once(s.ingest("pages", x1), `{"duplicate":true}`)
	s.eventually(func() string {
		return unless(s.ch.Value(t, "SELECT count() FROM pages WHERE event_id = 'x1'") == "1", "x1 is not there")
	})
}

func TestStoreNotAvailable(t *testing.T) {
	t.Parallel()
	birch, cedar := own(t), own(t)
	birch.config = map[string]string{"dedupe": `{"tables":{"pages":{"enabled":true}}}`}
	birch.ch.Exec(t, "CREATE TABLE plain (event_id String, page String) ENGINE = MergeTree ORDER BY event_id")
	s := prepareNested(t, options{}, map[string]folder{"birch": birch, "cedar": cedar})
	blocker := filepath.Join(s.dataDir, "pebble")
	require.NoError(t, os.WriteFile(blocker, nil, 0o600))
	s.run()
	s.awaitTenant("birch")
	s.awaitTenant("cedar")
	a := s.ingest("pages", event("a", "/"), from("birch")...)
	p := refused(t, a, http.StatusServiceUnavailable, "dedupe.unavailable")
	assert.True(t, p.Retryable)
	assert.Equal(t, "5", a.header.Get("Retry-After"))
	assert.NotContains(t, a.body, s.dataDir)
	s.once(s.ingest("plain", event("a", "/"), from("birch")...), `{"ok":true}`)
	s.once(s.ingest("pages", event("a", "/"), from("cedar")...), `{"ok":true}`)
	refused(t, s.ingest("pages", event("b", "/"), from("cedar", "Idempotency-Key", "k")...), http.StatusServiceUnavailable, "dedupe.unavailable")
	steps := s.tenantStates()
	require.Len(t, steps["birch"].FailedSteps, 1)
	assert.Equal(t, "dedupe_store", steps["birch"].FailedSteps[0].Step)
	assert.Empty(t, steps["cedar"].FailedSteps)

	// It is tried again by itself, and at a reload at once.
	require.NoError(t, os.Remove(blocker))
	require.Equal(t, http.StatusOK, s.reload().status)
	assert.Empty(t, s.tenantStates()["birch"].FailedSteps)
	s.once(s.ingest("pages", event("a", "/"), from("birch")...), `{"ok":true}`)
	s.once(s.ingest("pages", event("a", "/"), from("birch")...), `{"duplicate":true}`)
	s.once(s.ingest("pages", event("a", "/"), from("cedar")...), `{"ok":true}`)

	// A removed tenant's ids are kept.
	s.removeFolder("birch")
	require.Equal(t, http.StatusOK, s.reload().status)
	s.writeFolder("birch", birch)
	require.Equal(t, http.StatusOK, s.reload().status)
	s.awaitTenant("birch")
	s.once(s.ingest("pages", event("a", "/"), from("birch")...), `{"duplicate":true}`)
	s.holds(birch, 1)
	s.holds(cedar, 2)
}

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	require.NoDirExists(t, filepath.Join(s.dataDir, "pebble"), "the store is opened when it is needed")
	body := "[" + event("a", "/") + "," + event("a", "/") + `,{"event_id":"b","n":"x"}]`
	first := s.ingest("pages", body, "Idempotency-Key", "k1")
	require.Equal(t, http.StatusOK, first.status, first.body)
	assert.Empty(t, first.header.Get("Idempotent-Replayed"))
	assert.Equal(t, 2, decode[batch](t, first).Succeeded)
	again := s.ingest("pages", body, "Idempotency-Key", "k1")
	require.Equal(t, http.StatusOK, again.status, again.body)
	assert.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
	b := decode[batch](t, again)
	assert.Equal(t, []int{3, 0, 2, 1}, []int{b.Total, b.Succeeded, b.Duplicates, b.Failed})
	assert.Equal(t, decode[batch](t, first).Results[0], b.Results[2])

	s.once(s.ingest("pages", event("c", "/"), "Idempotency-Key", "k2"), `{"ok":true}`)
	s.restart()
	s.once(s.ingest("pages", event("c", "/"), "Idempotency-Key", "k2"), `{"duplicate":true}`)
	p := refused(t, s.ingest("pages", event("d", "/"), "Idempotency-Key", "k2"), http.StatusUnprocessableEntity, "idempotency.key_reused")
	assert.False(t, p.Retryable)
	for _, bad := range []string{"", "a b", strings.Repeat("k", 256)} {
		refused(t, s.ingest("pages", event("e", "/"), "Idempotency-Key", bad), http.StatusBadRequest, "idempotency.key_invalid")
	}
	refused(t, s.ingest("pages", event("e", "/"), "Idempotency-Key", "a", "Idempotency-Key", "a"), http.StatusBadRequest, "idempotency.key_invalid")
	s.stored("pages", 3)
}

func TestIdempotencyKeysAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	var all sync.WaitGroup
	var mu sync.Mutex
	kinds := map[string]int{}
	for range 20 {
		all.Go(func() {
			a, err := s.try(http.MethodPost, "/v1/ingest?table=pages", strings.NewReader(event("a", "/")),
				"Content-Type", "application/json", "Idempotency-Key", "k")
			if !assert.NoError(t, err) {
				return
			}
			var v map[string]any
			assert.NoError(t, json.Unmarshal([]byte(a.body), &v))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case v["ok"] == true:
				kinds["ok"]++
			case v["duplicate"] == true:
				kinds["duplicate"]++
			case a.status == http.StatusConflict && v["code"] == "idempotency.in_flight" && a.header.Get("Retry-After") == "30":
				kinds["conflict"]++
			default:
				assert.Fail(t, a.body)
			}
		})
	}
	all.Wait()
	assert.Equal(t, 1, kinds["ok"], "%v", kinds)
	s.stored("pages", 1)
}

func TestDedupeAndKeyTogether(t *testing.T) {
	t.Parallel()
	s := start(t, options{config: dedupeOn}, pagesTable)
	s.once(s.ingest("pages", event("a", "/"), "Idempotency-Key", "k"), `{"ok":true}`)
	s.once(s.ingest("pages", event("a", "/"), "Idempotency-Key", "other"), `{"duplicate":true}`)
	s.once(s.ingest("pages", event("b", "/"), "Idempotency-Key", "b"), `{"ok":true}`)
	s.stored("pages", 2)
}

// claimed restarts the server over claims of pages, as a process leaves them
// that dies between claim and commit. They are named as dedupe.RecordID and
// RequestID do.
func (s *server) claimed(ids ...string) {
	s.t.Helper()
	s.stop()
	store := pebble.New(pebble.Options{Dir: filepath.Join(s.dataDir, "pebble"), Lease: 10 * time.Minute, Timeout: time.Minute})
	_, err := store.Reserve(s.t.Context(), dedupe.Scope{Tenant: tenant.Default, Table: "pages"}, dedupe.NewOwner(), ids)
	require.NoError(s.t, err)
	require.NoError(s.t, store.Close(s.t.Context()))
	s.run()
}

func TestDedupeClaimLeftByACrash(t *testing.T) {
	t.Parallel()
	s := start(t, options{config: dedupeOn}, pagesTable)
	s.claimed("r\x01a")
	a := s.ingest("pages", event("a", "/"))
	p := refused(t, a, http.StatusServiceUnavailable, "dedupe.in_flight")
	assert.True(t, p.Retryable)
	assert.Equal(t, "30", a.header.Get("Retry-After"))
	// In a batch it is told which are stored.
	a = s.ingest("pages", "["+event("b", "/")+","+event("a", "/")+"]")
	refused(t, a, http.StatusServiceUnavailable, "dedupe.in_flight")
	counts := decode[batch](t, a)
	assert.Equal(t, []int{2, 1, 1}, []int{counts.Total, counts.Succeeded, counts.Failed})
	assert.Equal(t, 2, counts.Results[0].Index)
	s.stored("pages", 1)
}

// A tenant whose ids fill their budget is told so, and what is known is still known.
func TestSeenIdsHaveABudget(t *testing.T) {
	t.Parallel()
	s := start(t, options{config: map[string]string{"dedupe": `{"enabled":true,"max_bytes":"4KiB"}`}}, pagesTable)
	n := 0
	for ; n < 1000; n++ {
		a := s.ingest("pages", event(fmt.Sprint("id-", n), "/1"))
		if a.status != http.StatusOK {
			p := refused(t, a, http.StatusServiceUnavailable, "dedupe.full")
			require.True(t, p.Retryable)
			require.Equal(t, "30", a.header.Get("Retry-After"))
			break
		}
	}
	require.Greater(t, n, 10)
	require.Less(t, n, 100)
	s.once(s.ingest("pages", event("id-0", "/2")), `{"duplicate":true}`)
	require.Contains(t, s.do(http.MethodGet, "/metrics", "").body,
		`wavehouse_ingest_rows_total{code="dedupe.full",result="failed",table="pages",tenant="0"} 1`)

	s.o.config["dedupe"] = `{"enabled":true,"max_bytes":"4KiB","when_full":"forget_oldest"}`
	s.writeSettings()
	require.Equal(t, http.StatusOK, s.reload().status)
	for i := range 200 {
		s.eventually(func() string {
			a := s.ingest("pages", event(fmt.Sprint("more-", i), "/1"))
			return unless(a.status == http.StatusOK, a.body)
		})
	}
	s.once(s.ingest("pages", event("more-199", "/2")), `{"duplicate":true}`)
	s.once(s.ingest("pages", event("id-0", "/3")), `{"ok":true}`)
}
