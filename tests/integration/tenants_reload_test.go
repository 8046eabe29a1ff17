package integration

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
	"github.com/wavehouse/wavehouse/internal/stream/streamtest"
)

func TestReloadOfADirectoryOfTenants(t *testing.T) {
	t.Parallel()
	a, b := own(t), own(t)
	s := nested(t, options{}, map[string]folder{"acme": a, "birch": b})
	got := s.reload()
	require.Equal(t, http.StatusOK, got.status, got.body)
	assert.True(t, decode[reloadAnswer](t, got).Adopted)

	// A new folder is a tenant after a reload of the whole, and not before.
	c := own(t)
	s.writeFolder("cedar", c)
	refused(t, s.reloadTenant("cedar"), http.StatusNotFound, "tenant.unknown")
	refused(t, s.query("pages", "{}", from("cedar")...), http.StatusNotFound, "tenant.unknown")
	require.Equal(t, http.StatusOK, s.reload().status)
	s.awaitTenant("cedar")

	// A folder with an error stops its tenant; the others carry on.
	b.broken = true
	s.writeFolder("birch", b)
	got = s.reloadTenant("birch")
	require.Equal(t, http.StatusUnprocessableEntity, got.status, got.body)
	answer := decode[reloadAnswer](t, got)
	assert.False(t, answer.Adopted)
	require.NotEmpty(t, answer.Findings)
	assert.Equal(t, "birch/policies.json", answer.Findings[0].File)
	refused(t, s.query("pages", "{}", from("birch")...), http.StatusServiceUnavailable, "tenant.rejected")
	s.accept("pages", lines("a", 1), from("acme")...)
	assert.NotEmpty(t, s.logs.lines(`"level":"ERROR"`, `"tenant":"birch"`))
	assert.Empty(t, s.logs.lines(`"level":"ERROR"`, `"tenant":"acme"`))
	state := s.tenantStates()["birch"]
	assert.Equal(t, "rejected", state.State)
	require.NotEmpty(t, state.Findings)
	assert.Equal(t, "birch/policies.json", state.Findings[0].File)
	assert.Empty(t, state.Pool, "its pool is released")

	// Adopted in part is refused; what is right is adopted all the same.
	a.config = map[string]string{"mq": `{"max_bytes_gb":"1GB"}`}
	s.writeFolder("acme", a)
	got = s.reload()
	require.Equal(t, http.StatusUnprocessableEntity, got.status, got.body)
	answer = decode[reloadAnswer](t, got)
	assert.False(t, answer.Adopted)
	assert.Equal(t, [][]string{{"acme"}, {"birch"}, {}}, [][]string{answer.Changed, answer.Refused, answer.Removed})
	s.awaitState("acme", func(st tenantState) bool { return st.Queue != nil && st.Queue.Budget == 1e9 })

	// A rejected folder is repaired by a reload of it alone.
	b.broken = false
	s.change("birch", b)
	s.awaitTenant("birch")
	require.Equal(t, http.StatusOK, s.reload().status)
	assert.Equal(t, "served", s.tenantStates()["birch"].State)
	assert.Empty(t, s.tenantStates()["birch"].Findings)
}

func TestARejectedTenantsRowsAndStreams(t *testing.T) { outOfService(t, "tenant_rejected") }

func TestARemovedTenantsRowsAndStreams(t *testing.T) { outOfService(t, "tenant_removed") }

// TestARejectedTenantsRowsWait: a mistyped key in a tenant's folder, put right a
// moment later, moves none of its rows.
func TestARejectedTenantsRowsWait(t *testing.T) {
	t.Parallel()
	a := own(t)
	proxy := clickhousetest.NewFaultProxy(t, a.ch.HTTPAddr())
	a.httpPort = proxy.Port()
	s := nested(t, options{}, map[string]folder{"acme": a, "birch": own(t)})
	proxy.Set(clickhousetest.ResetBeforeBody())
	s.accept("pages", lines("queued", 5), from("acme")...)
	mistyped := a
	mistyped.broken = true
	s.writeFolder("acme", mistyped)
	require.Equal(t, http.StatusUnprocessableEntity, s.reloadTenant("acme").status)
	proxy.Set(clickhousetest.Pass())
	s.eventually(func() string {
		return unless(len(s.logs.lines(`"class":"no_pool"`, `"tenant":"acme"`)) > 1, "no attempt while it is rejected")
	})
	state := s.tenantStates()["acme"]
	assert.Equal(t, "rejected", state.State)
	assert.Equal(t, 1, state.Queue.Pending)
	assert.Zero(t, s.letterCount("acme"))
	s.writeFolder("acme", a)
	require.Equal(t, http.StatusOK, s.reload().status)
	s.holds(a, 5)
	assert.Zero(t, s.letterCount("acme"))
}

// outOfService takes a tenant out of service while its stream is open and rows
// wait in its queue, and brings it back.
func outOfService(t *testing.T, reason string) {
	t.Parallel()
	a, b := own(t), own(t)
	proxy := clickhousetest.NewFaultProxy(t, a.ch.HTTPAddr())
	a.httpPort = proxy.Port()
	s := nested(t, options{env: []string{"WH_MQ_REJECTED_GRACE=0s"}}, map[string]folder{"acme": a, "birch": b})
	stream, other := s.listen("pages", "", from("acme")...), s.listen("pages", "", from("birch")...)
	s.accept("pages", lines("written", 2), from("acme")...)
	stream.rows(2)
	last := stream.LastID()
	s.holds(a, 2)
	s.rows("pages", `{"columns":["event_id"]}`, from("acme")...)
	proxy.Set(clickhousetest.ResetBeforeBody())
	s.accept("pages", lines("queued", 5), from("acme")...)
	stream.rows(5)

	out := a
	if reason == "tenant_removed" {
		s.removeFolder("acme")
		require.Equal(t, http.StatusOK, s.reload().status)
		refused(t, s.ingest("pages", "{}", from("acme")...), http.StatusNotFound, "tenant.unknown")
	} else {
		out.broken = true
		s.writeFolder("acme", out)
		require.Equal(t, http.StatusUnprocessableEntity, s.reloadTenant("acme").status)
		refused(t, s.ingest("pages", "{}", from("acme")...), http.StatusServiceUnavailable, "tenant.rejected")
	}
	assert.Equal(t, reason, stream.event().EndReason())
	_, err := stream.NextEvent()
	require.Error(t, err, "and it is over")

	// What waited is parked, and written nowhere.
	s.eventually(func() string { return unless(s.letterCount("acme") == 5, "letters") })
	state := s.awaitState("acme", func(st tenantState) bool { return st.Queue != nil && st.Queue.Pending == 0 })
	assert.Equal(t, reason, "tenant_"+state.State)
	assert.Equal(t, 5, state.Queue.DeadLetters)
	assert.Equal(t, 2, a.ch.Count(t, "pages"))
	assert.Zero(t, b.ch.Count(t, "pages"))
	assert.Zero(t, s.letterCount("birch"))
	got := s.ops(http.MethodGet, "/v1/ops/dlq/rows?tenant=acme&table=pages", "")
	require.Equal(t, http.StatusOK, got.status, got.body)
	assert.Contains(t, got.body, `"tenant.not_served"`)
	// Others did not notice.
	s.accept("pages", lines("b", 1), from("birch")...)
	other.rows(1)
	s.holds(b, 1)

	// Written to meanwhile, by somebody else.
	a.ch.Exec(t, "INSERT INTO pages (event_id) VALUES ('elsewhere')")
	proxy.Set(clickhousetest.Pass())
	s.writeFolder("acme", a)
	require.Equal(t, http.StatusOK, s.reload().status)
	s.awaitTenant("acme")
	assert.Equal(t, 5, s.letterCount("acme"), "the dead letters are found again")
	assert.Len(t, s.rows("pages", `{"columns":["event_id"]}`, from("acme")...), 3, "no answer from before")
	s.accept("pages", lines("again", 1), from("acme")...)
	s.holds(a, 4)
	resumed := s.listen("pages", last, from("acme")...)
	for _, want := range []string{"queued0", "queued1", "queued2", "queued3", "queued4", "again0"} {
		row, _ := resumed.row()
		assert.Equal(t, want, cell(t, row, "event_id"), "the history goes on")
	}
}

// A stream that is opening while its tenant is taken away is told of it, or
// refused like any other request.
func TestStreamsThatOpenDuringAReload(t *testing.T) {
	t.Parallel()
	a := own(t)
	s := nested(t, options{}, map[string]folder{"acme": a, "birch": own(t)})
	const rounds, openers = 6, 8
	opened := 0
	for range rounds {
		s.awaitTenant("acme")
		begin, fates := make(chan struct{}), make(chan string, openers)
		for range openers {
			go func() {
				<-begin
				for fate := ""; fate == ""; {
					fate = s.fateOfAStream("acme")
					switch fate {
					case "tenant_removed":
						fates <- fate
						fate = ""
					case "schema.not_loaded": // its tables are gone, and it is not yet: a 503, to come again
						fate = ""
					default:
						fates <- fate
					}
				}
			}()
		}
		close(begin)
		// At least one of each is open, and others are opening, when it goes.
		s.eventually(func() string { return unless(len(s.series("acme")) > 0, "no stream") })
		s.removeFolder("acme")
		require.Equal(t, http.StatusOK, s.reload().status)
		for refused := 0; refused < openers; {
			switch fate := <-fates; fate {
			case "tenant.unknown":
				refused++
			case "tenant_removed":
				opened++
			default:
				require.Fail(t, "a stream must be refused or told of its end", fate)
			}
		}
		s.writeFolder("acme", a)
		require.Equal(t, http.StatusOK, s.reload().status)
	}
	assert.Positive(t, opened)
}

// fateOfAStream opens a stream and says how it ended: the reason of its end, or
// the code of its refusal.
func (s *server) fateOfAStream(id string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 2*soon)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/v1/stream?table=pages", nil)
	if err != nil {
		return err.Error()
	}
	request.Header.Set("X-Tenant-ID", id)
	stream, err := streamtest.Open(&http.Client{Transport: s.client.Transport}, request, "")
	var r *streamtest.Refused
	if errors.As(err, &r) {
		var p problem
		_ = json.Unmarshal(r.Body, &p)
		return p.Code
	}
	if err != nil {
		return err.Error()
	}
	defer stream.Close()
	frame, err := stream.NextEvent()
	if err != nil {
		return err.Error()
	}
	return frame.EndReason()
}

func TestBootOverBrokenFoldersServesTheOthers(t *testing.T) {
	t.Parallel()
	folders := map[string]folder{"acme": own(t)}
	for _, id := range []string{"b1", "b2", "b3"} {
		folders[id] = folder{broken: true}
	}
	s := nested(t, options{}, folders)
	states := s.tenantStates()
	assert.Len(t, states, 4)
	for _, id := range []string{"b1", "b2", "b3"} {
		assert.Equal(t, "rejected", states[id].State)
		require.NotEmpty(t, states[id].Findings)
		assert.NotEmpty(t, s.logs.lines(`"level":"ERROR"`, `"tenant":"`+id+`"`))
	}
	assert.Equal(t, http.StatusOK, s.do(http.MethodGet, "/readyz", "").status)
	for _, id := range []string{"acme", "b1", "b2", "b3"} {
		s.removeFolder(id)
	}
	require.Equal(t, http.StatusOK, s.reload().status, "an emptied directory drops them all")
	assert.Empty(t, s.tenantStates())
	assert.Equal(t, http.StatusOK, s.do(http.MethodGet, "/livez", "").status, "for the life of the process")
	assert.Contains(t, s.do(http.MethodGet, "/readyz", "").body, "no ClickHouse pool")
	s.writeFolder("acme", folders["acme"])
	require.Equal(t, http.StatusOK, s.reload().status)
	s.awaitTenant("acme")
}

func TestMetricsOfARemovedTenantGo(t *testing.T) {
	t.Parallel()
	a, b := own(t), own(t)
	s := nested(t, options{}, map[string]folder{"acme": a, "birch": b, "idle": own(t)})
	stream := s.listen("pages", "", from("acme")...)
	s.accept("pages", lines("a", 2), from("acme")...)
	stream.rows(2)
	s.holds(a, 2)
	for _, name := range []string{"wavehouse_ingest_rows_total", "wavehouse_worker_rows_inserted_total", "wavehouse_stream_subscribers", "wavehouse_mq_bytes", "wavehouse_settings_generation_info"} {
		// Rows are counted once ClickHouse, which has them, has answered.
		s.eventually(func() string { return unless(slices.Contains(s.series("acme"), name), name) })
	}
	assert.Equal(t, []string{"wavehouse_settings_generation_info"}, s.series("idle"), "a tenant that never wrote")
	s.removeFolder("acme")
	s.removeFolder("idle")
	require.Equal(t, http.StatusOK, s.reload().status)
	require.Equal(t, "tenant_removed", stream.event().EndReason())
	s.awaitState("acme", func(st tenantState) bool { return st.Queue != nil && st.Queue.Pending == 0 })
	s.eventually(func() string {
		return unless(s.reload().status == http.StatusOK && len(s.series("acme")) <= 6, strings.Join(s.series("acme"), " "))
	})
	for _, name := range s.series("acme") {
		assert.Contains(t, name, "wavehouse_mq_", "only those of the queue that is kept")
	}
	assert.Empty(t, s.series("idle"))
	states := s.tenantStates()
	assert.Equal(t, "removed", states["acme"].State)
	assert.NotContains(t, states, "idle", "it keeps nothing")
	refused(t, s.ops(http.MethodGet, "/v1/ops/dlq/stats?tenant=idle", ""), http.StatusNotFound, "dlq.none")
	assert.Zero(t, s.letterCount("acme"))
}
