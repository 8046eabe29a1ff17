package integration

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/app"
	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
	"github.com/wavehouse/wavehouse/internal/config"
	"github.com/wavehouse/wavehouse/internal/telemetry"
)

func sized(f folder, conns int) folder {
	f.maxConns = conns
	return f
}

func TestTheCeilingOfConnectionsRefusesTheStart(t *testing.T) {
	t.Parallel()
	s := prepareNested(t, options{}, map[string]folder{"acme": sized(own(t), 6), "birch": sized(own(t), 6)})
	cfg, _, err := config.Load([]string{
		"WH_SETTINGS_DIR=" + s.settingsDir, "WH_DATA_DIR=" + s.dataDir, "WH_CH_MAX_TOTAL_CONNS=20",
		"WH_CONFIG=" + filepath.Join(s.dataDir, "none.yaml"), "WH_SERVER_PORT=0",
	}, nil)
	require.NoError(t, err)
	logger, err := telemetry.NewLogger(s.logs, telemetry.LogOptions{Level: "info", Format: "json"})
	require.NoError(t, err)
	_, err = app.New(context.Background(), app.Options{Config: cfg, Logger: logger})
	require.ErrorContains(t, err, "clickhouse.max_total_conns")
	require.ErrorContains(t, err, "32")
	require.ErrorContains(t, err, "20")
}

func TestTheCeilingOfConnectionsHoldsOnReload(t *testing.T) {
	t.Parallel()
	a, b := sized(own(t), 5), sized(own(t), 5)
	s := nested(t, options{env: []string{"WH_CH_MAX_TOTAL_CONNS=28"}}, map[string]folder{"acme": a, "birch": b})

	// One that grows over it keeps what it had.
	s.change("acme", sized(a, 9))
	state := s.tenantStates()["acme"]
	require.Len(t, state.FailedSteps, 1)
	assert.Equal(t, "clickhouse_pool", state.FailedSteps[0].Step)
	assert.Contains(t, state.FailedSteps[0].Error, "36")
	assert.Empty(t, s.tenantStates()["birch"].FailedSteps)
	assert.NotEmpty(t, s.logs.lines(`"level":"ERROR"`, `"tenant":"acme"`, "clickhouse_pool"))
	s.accept("pages", lines("a", 1), from("acme")...)
	s.holds(a, 1)

	// One that comes over it has none.
	c := sized(own(t), 1)
	s.writeFolder("cedar", c)
	require.Equal(t, http.StatusOK, s.reload().status)
	state = s.tenantStates()["cedar"]
	require.Len(t, state.FailedSteps, 1)
	assert.Equal(t, "served", state.State)
	got := s.ops(http.MethodPost, "/v1/ops/query?tenant=cedar", `{"sql":"SELECT 1"}`)
	p := refused(t, got, http.StatusServiceUnavailable, "clickhouse.no_pool")
	assert.True(t, p.Retryable)
	assert.Equal(t, "30", got.header.Get("Retry-After"))

	// One that leaves makes room, and the failed steps are tried again.
	s.removeFolder("birch")
	require.Equal(t, http.StatusOK, s.reload().status)
	assert.Empty(t, s.tenantStates()["cedar"].FailedSteps)
	assert.Empty(t, s.tenantStates()["acme"].FailedSteps)
	s.awaitTenant("cedar")
	s.accept("pages", lines("c", 1), from("cedar")...)
	s.holds(c, 1)
}

func TestPasswordsOfTheTenants(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "passwords.json")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write(`{"acme":` + quoted(clickhousetest.SecuredPassword) + `}`)
	a, b := own(t), own(t)
	a.username = clickhousetest.SecuredUser
	s := nested(t, options{env: []string{"WH_CH_PASSWORD=", "WH_CH_PASSWORDS_FILE=" + file}}, map[string]folder{"acme": a, "birch": b})
	s.accept("pages", lines("a", 1), from("acme")...)
	s.accept("pages", lines("b", 1), from("birch")...)
	s.holds(a, 1)
	s.holds(b, 1)

	// A file that cannot be read keeps what it said, and shows.
	write(`{"acme":`)
	require.Equal(t, http.StatusOK, s.reload().status)
	state := s.tenantStates()["acme"]
	require.Len(t, state.FailedSteps, 1)
	assert.Equal(t, "clickhouse_passwords", state.FailedSteps[0].Step)
	assert.NotEmpty(t, s.logs.lines(`"level":"ERROR"`, "keeping the ClickHouse passwords"))
	s.accept("pages", lines("c", 1), from("acme")...)
	s.holds(a, 2)

	// Another password is the next statement's.
	write(`{"acme":` + quoted(clickhousetest.SecuredPassword) + `,"birch":""}`)
	require.Equal(t, http.StatusOK, s.reload().status)
	assert.Empty(t, s.tenantStates()["acme"].FailedSteps)
	s.accept("pages", lines("d", 1), from("acme")...)
	s.holds(a, 3)
	assert.NotContains(t, s.logs.String(), "s3cured")
	assert.NotContains(t, s.ops(http.MethodGet, "/v1/ops/tenants", "").body, "s3cured")
}

// Two tenants name one database with different users.
func TestTwoUsersOfOneClickHouse(t *testing.T) {
	t.Parallel()
	first := own(t)
	second, narrow := first, first
	second.username, narrow.username = clickhousetest.AsyncUser, clickhousetest.NarrowUser
	s := nested(t, options{}, map[string]folder{"first": first, "second": second})
	s.accept("pages", lines("f", 3), from("first")...)
	s.holds(first, 3)
	assert.Len(t, s.rows("pages", `{"columns":["event_id"]}`, from("second")...), 3)
	user := func(id string) string {
		return s.ops(http.MethodPost, "/v1/ops/query?tenant="+id, `{"sql":"SELECT currentUser() AS u"}`).body
	}
	assert.Contains(t, user("first"), "default")
	assert.Contains(t, user("second"), clickhousetest.AsyncUser)
	s.accept("pages", lines("s", 1), from("second")...)
	s.holds(first, 4)
	s.eventually(func() string { // ClickHouse has the row before the answers without it are dropped
		n := len(s.rows("pages", `{"columns":["event_id"]}`, from("second")...))
		return unless(n == 4, fmt.Sprint("a write of the one is seen by the other: ", n))
	})
	assert.Len(t, s.rows("pages", `{"columns":["event_id"]}`, from("first")...), 4)

	// A user who may not do what another may is its tenant's trouble.
	s.change("second", narrow)
	p := refused(t, s.ops(http.MethodPost, "/v1/ops/query?tenant=second", `{"sql":"SELECT * FROM pages"}`), http.StatusBadGateway, "clickhouse.misconfigured")
	assert.Equal(t, 497, p.ClickHouseCode)
	s.accept("pages", lines("t", 1), from("first")...)
	s.holds(first, 5)
}

// A tenant whose ClickHouse accepts and never answers delays nobody else.
func TestAHangingClickHouseIsItsTenantsAlone(t *testing.T) {
	t.Parallel()
	stuck, healthy := own(t), own(t)
	proxy := clickhousetest.NewFaultProxy(t, stuck.ch.HTTPAddr())
	stuck.httpPort, stuck.timeout = proxy.Port(), 5
	s := nested(t, options{}, map[string]folder{"stuck": stuck, "healthy": healthy})
	proxy.Hang()
	hung := make(chan answer, 40)
	for range cap(hung) {
		go func() {
			a, _ := s.try(http.MethodPost, "/v1/ops/query?tenant=stuck", strings.NewReader(`{"sql":"SELECT 1"}`), "X-Operator-Key", operatorKey)
			hung <- a
		}()
	}
	for range 5 {
		s.accept("pages", lines("s", 200), from("stuck")...)
	}
	stream := s.listen("pages", "", from("healthy")...)
	// Every one of these would take the timeout of the other's ClickHouse, 5 s,
	// if it waited for it once.
	begun := time.Now()
	const rounds = 20
	for i := range rounds {
		s.accept("pages", lines("h", 50), from("healthy")...)
		stream.rows(50)
		s.holds(healthy, 50*(i+1))
		s.rows("pages", `{"aggregations":[{"fn":"count","column":"*"}]}`, from("healthy")...)
		require.Equal(t, http.StatusOK, s.reloadTenant("healthy").status)
		require.Equal(t, http.StatusOK, s.do(http.MethodGet, "/readyz", "").status)
		healthy.ch.Exec(t, "CREATE TABLE IF NOT EXISTS fresh (n Int64) ENGINE = MergeTree ORDER BY n")
		require.Equal(t, http.StatusOK, s.ops(http.MethodPost, "/v1/ops/schema/refresh?tenant=healthy", "").status)
	}
	assert.Less(t, time.Since(begun), rounds*5*time.Second)
	require.Equal(t, http.StatusOK, s.reload().status)
	assert.NotNil(t, s.tenantStates()["stuck"].OldestUnwritten)
	for range cap(hung) {
		a := <-hung
		assert.NotEqual(t, http.StatusOK, a.status)
	}
	// It heals by itself.
	proxy.Pass(t)
	s.holds(stuck, 1000)
	assert.Zero(t, s.letterCount("stuck"))
}
