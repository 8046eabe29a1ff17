package integration

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
)

// A folder is removed while its tenant's stream is open and its queue is full:
// more waits than its dead letters have room for.
func TestAFullQueueOfATenantThatLeaves(t *testing.T) {
	t.Parallel()
	acme, birch := own(t), own(t)
	acme.ch.Exec(t, "ALTER TABLE pages ADD CONSTRAINT positive CHECK n >= 0")
	proxy := clickhousetest.NewFaultProxy(t, acme.ch.HTTPAddr())
	acme.httpPort = proxy.Port()
	acme.config = map[string]string{"mq": `{"max_bytes_gb":"400KB"}`}
	s := nested(t, options{}, map[string]folder{"acme": acme, "birch": birch})
	const older = 3
	for i := range older {
		s.accept("pages", fmt.Sprintf(`{"event_id":"older%d","page":"/","n":-1}`, i), from("acme")...)
	}
	s.eventually(func() string { return unless(s.letterCount("acme") == older, "letters") })

	stream, other := s.listen("pages", "", from("acme")...), s.listen("pages", "", from("birch")...)
	proxy.Refuse()
	answered := s.fill("acme")
	for range answered {
		require.True(t, stream.event().IsRow())
	}
	s.removeFolder("acme")
	require.Equal(t, http.StatusOK, s.reload().status)
	assert.Equal(t, "tenant_removed", stream.event().EndReason())
	_, err := stream.NextEvent()
	require.Error(t, err)
	refused(t, s.ingest("pages", `{"event_id":"late"}`, from("acme")...), http.StatusNotFound, "tenant.unknown")

	// As many as there is room for are parked, and none is lost for them.
	s.eventually(func() string {
		return unless(len(s.logs.lines("they stay in the queue", `"tenant":"acme"`)) > 0, "there is room for all")
	})
	parked := s.letterCount("acme") - older
	assert.Less(t, parked, answered)
	state := s.tenantStates()["acme"]
	assert.Equal(t, "removed", state.State)
	assert.Positive(t, state.Queue.Pending)
	s.accept("pages", lines("b", 100), from("birch")...)
	other.rows(100)
	s.holds(birch, 100)
	require.Equal(t, http.StatusOK, s.reload().status)

	proxy.Pass(t)
	s.writeFolder("acme", acme)
	require.Equal(t, http.StatusOK, s.reload().status)
	s.awaitTenant("acme")
	// What had no room is tried again after a while.
	require.Eventually(t, func() bool {
		return s.tenantStates()["acme"].Queue.Pending == 0
	}, time.Minute, 20*time.Millisecond, "what stayed in the queue is written")
	parked = s.letterCount("acme") - older
	assert.Equal(t, answered, parked+acme.ch.Count(t, "pages"))
	acme.ch.Exec(t, "ALTER TABLE pages DROP CONSTRAINT positive")
	a := s.ops(http.MethodPost, replayRoute+"?tenant=acme", `{"table":"pages","all":true}`)
	require.Equal(t, http.StatusOK, a.status, a.body)
	assert.Equal(t, replayed{Replayed: parked + older, Failures: decode[replayed](t, a).Failures}, decode[replayed](t, a))
	s.holds(acme, answered+older)
	assert.Equal(t, fmt.Sprint(answered+older), acme.ch.Value(t, "SELECT uniqExact(event_id) FROM pages"))
	assert.Zero(t, s.letterCount("acme"))
	assert.Zero(t, s.letterCount("birch"))
	assert.Equal(t, 100, birch.ch.Count(t, "pages"))
}

// fill sends rows until the tenant's queue is full, and returns how many were
// answered as stored.
func (s *server) fill(id string) int {
	s.t.Helper()
	answered := 0
	for i := range 400 {
		a := s.do(http.MethodPost, "/v1/ingest?table=pages", lines(fmt.Sprintf("r%d-", i), 50), from(id, "Content-Type", ndjson)...)
		answered += decode[batch](s.t, a).Succeeded
		if a.status != http.StatusOK {
			refused(s.t, a, http.StatusServiceUnavailable, "queue.full")
			return answered
		}
	}
	require.FailNow(s.t, "the queue took everything")
	return 0
}
