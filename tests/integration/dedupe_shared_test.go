package integration

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
	"github.com/wavehouse/wavehouse/internal/dedupe/dynamotest"
)

// twoSharing starts two servers, each with a queue of its own, over one ClickHouse
// database and one table of ids.
func twoSharing(t *testing.T, endpoint, dedupe string, env ...string) [2]*server {
	t.Helper()
	// As every AWS tool finds them; nothing else here reads them.
	require.NoError(t, os.Setenv("AWS_ACCESS_KEY_ID", dynamotest.KeyID))
	require.NoError(t, os.Setenv("AWS_SECRET_ACCESS_KEY", dynamotest.Secret))
	o := options{
		clickhouse: clickhousetest.Start(t), config: map[string]string{"dedupe": dedupe},
		env: append([]string{
			"WH_DEDUPE_BACKEND=dynamodb", "WH_DEDUPE_DYNAMODB_TABLE=ids", "WH_DEDUPE_DYNAMODB_REGION=" + dynamotest.Region,
			"WH_DEDUPE_DYNAMODB_ENDPOINT=" + endpoint, "WH_DEDUPE_DYNAMODB_CREATE_TABLE=true",
		}, env...),
	}
	a := start(t, o, pagesTable)
	return [2]*server{a, start(t, o)}
}

// Ids posted to two processes at once: one is stored, and one is told so.
func TestTwoProcessesStoreAnIdOnce(t *testing.T) {
	t.Parallel()
	d := dynamotest.StartDynalite(t)
	both := twoSharing(t, d.URL, `{"enabled":true}`)
	const ids, copies = 60, 6
	var accepted [ids]atomic.Int32
	var all sync.WaitGroup
	for n := range ids * copies {
		all.Go(func() {
			id := n % ids
			for end := time.Now().Add(soon); time.Now().Before(end); {
				s := both[n/ids%2]
				a, err := s.try(http.MethodPost, "/v1/ingest?table=pages", strings.NewReader(event(fmt.Sprint("e", id), "/")), "Content-Type", "application/json")
				if !assert.NoError(t, err) {
					return
				}
				if a.status == http.StatusOK {
					if strings.Contains(a.body, `"ok":true`) {
						accepted[id].Add(1)
					}
					return
				}
				assert.Equal(t, http.StatusServiceUnavailable, a.status, a.body)
				time.Sleep(50 * time.Millisecond) // a store that has no time is not asked at once again
			}
		})
	}
	all.Wait()
	for id := range accepted {
		assert.Equal(t, int32(1), accepted[id].Load(), "e%d", id)
	}
	both[0].stored("pages", ids)

	// An idempotency key is one key for both.
	const path = "/v1/ingest?table=pages"
	keyed := func(s *server) (a answer) {
		s.eventually(func() string {
			a = s.do(http.MethodPost, path, `{"event_id":"","page":"/key"}`, "Content-Type", "application/json", "Idempotency-Key", "k1")
			return unless(a.status == http.StatusOK, a.body)
		})
		return a
	}
	both[0].once(keyed(both[0]), `{"ok":true}`)
	again := keyed(both[1])
	assert.Contains(t, again.body, `"duplicate":true`)
	refused(t, both[1].do(http.MethodPost, path, `{"event_id":"","page":"/other"}`, "Content-Type", "application/json", "Idempotency-Key", "k1"),
		http.StatusUnprocessableEntity, "idempotency.key_reused")
	both[0].stored("pages", ids+1)
}

// The store of ids goes away and comes back under load, answers are lost, batches
// are cut short: with `defer` every record is accepted, and each id is stored once.
func TestTheStoreOfIdsGoesAwayAndComesBackUnderLoad(t *testing.T) {
	t.Parallel()
	f := dynamotest.NewFake(t)
	both := twoSharing(t, f.URL, `{"enabled":true,"when_unavailable":"defer"}`, "WH_DEDUPE_LEASE=5s")
	var away atomic.Bool
	f.Fail(func(operation string, n int) dynamotest.Fault {
		switch r := rand.IntN(40); {
		case away.Load():
			return dynamotest.Fault{Code: "InternalServerError", Status: http.StatusInternalServerError}
		case r == 0:
			return dynamotest.Fault{Lose: true}
		case r == 1:
			return dynamotest.Fault{Tear: true}
		case r == 2:
			return dynamotest.Fault{Code: "ThrottlingException"}
		}
		return dynamotest.Fault{}
	})
	const ids = 240
	next := make(chan int)
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for id := range next {
				// To both, and again to one of them: an impatient client.
				var posts sync.WaitGroup
				for n := range 3 {
					posts.Go(func() { untilTaken(t, both[n%2], fmt.Sprint("e", id)) })
				}
				posts.Wait()
			}
		})
	}
	for id := range ids {
		away.Store(id%80 >= 40)
		next <- id
	}
	away.Store(false)
	close(next)
	clients.Wait()
	both[0].eventuallyWithin(2*time.Minute, func() string {
		counts := both[0].ch.Value(t, "SELECT concat(toString(uniqExact(event_id)), ' of ', toString(count())) FROM pages")
		return unless(strings.HasPrefix(counts, fmt.Sprint(ids, " of ")), counts)
	})
	for _, s := range both {
		s.eventuallyWithin(2*time.Minute, func() string {
			metrics := s.do(http.MethodGet, "/metrics", "").body
			return unless(strings.Contains(metrics, "wavehouse_worker_held_bytes 0"), "rows are held")
		})
	}
	assert.Empty(t, both[0].ch.Value(t, "SELECT arrayStringConcat(groupArray(event_id), ' ') FROM (SELECT event_id FROM pages GROUP BY event_id HAVING count() > 1)"), "stored twice")
	deferred := 0
	for _, s := range both {
		if strings.Contains(s.do(http.MethodGet, "/metrics", "").body, "wavehouse_dedupe_deferred_records_total{") {
			deferred++
		}
	}
	assert.Equal(t, 2, deferred, "both deferred some")
}

// untilTaken posts a record until it is answered with 200.
func untilTaken(t *testing.T, s *server, id string) {
	deadline := time.Now().Add(2 * time.Minute)
	for time.Now().Before(deadline) {
		a, err := s.try(http.MethodPost, "/v1/ingest?table=pages", strings.NewReader(event(id, "/")), "Content-Type", "application/json")
		if err == nil && a.status == http.StatusOK {
			return
		}
	}
	assert.Fail(t, "not taken", id)
}
