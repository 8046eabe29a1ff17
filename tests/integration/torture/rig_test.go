package torture

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
	"github.com/wavehouse/wavehouse/tests/harness"
)

// volumeSize is what the queue's volume holds: enough for a round.
const volumeSize = 256 << 20

// rig is a server with several tenants on a small volume, its ClickHouse, and
// what can be broken about them.
type rig struct {
	t          *testing.T
	rng        *rand.Rand
	clickhouse *harness.ClickHouse
	proxy      *clickhousetest.TCPProxy // between the server and ClickHouse's HTTP port
	volume     *volume
	server     *harness.Server
	url        atomic.Value
	tenants    []string
	tables     []*table
	load       *load

	began time.Time
	// disruptions counts what may have left the outcome of an INSERT unknown.
	disruptions int
}

func newRig(t *testing.T, rng *rand.Rand) *rig {
	t.Helper()
	r := &rig{t: t, rng: rng, tenants: []string{"acme", "birch", "cedar"}, volume: mountVolume(t), began: time.Now()}
	for _, tenant := range r.tenants {
		r.tables = append(r.tables, &table{tenant: tenant, name: "events"}, &table{tenant: tenant, name: "clicks"})
	}
	r.tables = append(r.tables, &table{tenant: "acme", name: "odd.name"}, &table{tenant: "birch", name: "picky", picky: true})
	r.clickhouse = harness.StartClickHouse(t, binaries.Dir(t))
	r.proxy = clickhousetest.NewTCPProxy(t, fmt.Sprintf("127.0.0.1:%d", r.clickhouse.HTTPPort))
	for _, tenant := range r.tenants {
		r.clickhouse.Must(t, "CREATE DATABASE db_"+tenant)
	}
	for _, tb := range r.tables {
		r.clickhouse.Must(t, tb.create())
	}
	r.server = harness.NewNested(t, harness.ServerOptions{Bin: binaries.Dir(t), ClickHouse: r.clickhouse})
	r.server.DataDir = filepath.Join(r.volume.dir, "data")
	for _, tenant := range r.tenants {
		r.writeTenant(tenant)
	}
	r.start()
	for _, tb := range r.tables {
		r.awaitTable(tb)
	}
	return r
}

// writeTenant writes a tenant's folder as it should be, batching a little
// differently each time.
func (r *rig) writeTenant(tenant string) {
	r.server.WriteTenant(r.t, tenant, map[string]string{
		"clickhouse": fmt.Sprintf(`{"addr":"127.0.0.1","http_port":%d,"database":"db_%s","query_timeout":"5s"}`,
			r.proxy.Port(), tenant),
		"ingest": fmt.Sprintf(`{"flush":{"max_wait":"%dms"}}`, 100+r.rng.IntN(400)),
		"mq":     `{"max_bytes_gb":"2GB"}`,
		"stream": `{"gap_window_minutes":"5m"}`,
		"schema": `{"refresh_interval":"5s"}`,
	})
}

// reload adopts a tenant's folder and returns the answer's status.
func (r *rig) reload(tenant string) int {
	return r.server.Ops(r.t, http.MethodPost, "/v1/ops/settings/reload?tenant="+tenant, "").Status
}

// awaitTable waits until the table can be read through the server.
func (r *rig) awaitTable(tb *table) {
	harness.Eventually(r.t, 90*time.Second, func() error {
		a, err := r.server.TryDo(http.MethodPost, "/v1/query?table="+url.QueryEscape(tb.name), `{"columns":["n"],"limit":1}`, "X-Tenant-ID", tb.tenant)
		if err == nil && a.Status != http.StatusOK {
			return fmt.Errorf("%s: %d %s", tb, a.Status, a.Body)
		}
		return err
	})
}

// start runs the server, on a full volume too.
func (r *rig) start() {
	r.server.Start(r.t)
	r.url.Store(r.server.URL)
}

func (r *rig) current() string { return r.url.Load().(string) }

// say logs a step with its time.
func (r *rig) say(format string, args ...any) {
	r.t.Logf("%6.2fs %s", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
}

// drained waits until every tenant's queue is written or parked.
func (r *rig) drained() {
	harness.Eventually(r.t, 180*time.Second, func() error {
		a, err := r.server.TryDo(http.MethodGet, "/v1/ops/tenants", "", "X-Operator-Key", harness.OperatorKey)
		if err != nil {
			return err
		}
		var states []struct {
			Tenant, State string
			Queue         struct {
				Pending int `json:"pending_chunks"`
			}
		}
		if err := json.Unmarshal([]byte(a.Body), &states); err != nil {
			return fmt.Errorf("%w: %s", err, a.Body)
		}
		for _, s := range states {
			if s.State != "served" || s.Queue.Pending > 0 {
				return fmt.Errorf("not drained: %s", a.Body)
			}
		}
		return nil
	})
}

// letters returns the dead letters of a table by row number, each row as it
// is kept.
func (r *rig) letters(tb *table) map[int][]row {
	letters := map[int][]row{}
	for cursor := ""; ; {
		a := r.server.Ops(r.t, http.MethodGet, "/v1/ops/dlq/rows?"+url.Values{
			"tenant": {tb.tenant}, "table": {tb.name}, "limit": {"1000"}, "cursor": {cursor},
		}.Encode(), "")
		require.Equal(r.t, http.StatusOK, a.Status, a.Body)
		var page struct {
			Rows   []struct{ Row row }
			Cursor string
		}
		a.JSON(r.t, &page)
		for _, letter := range page.Rows {
			letters[int(letter.Row.N)] = append(letters[int(letter.Row.N)], letter.Row)
		}
		if cursor = page.Cursor; cursor == "" {
			return letters
		}
	}
}

// replay puts a table's dead letters back into the queue. It reports whether
// all of them were.
func (r *rig) replay(tb *table) (done bool) {
	for range 100 {
		a, err := r.server.TryDo(http.MethodPost, "/v1/ops/dlq/replay?tenant="+tb.tenant,
			fmt.Sprintf(`{"table":%q,"all":true,"limit":1000}`, tb.name), "X-Operator-Key", harness.OperatorKey)
		if err != nil {
			return false
		}
		require.Equal(r.t, http.StatusOK, a.Status, a.Body)
		var answer struct{ Failed, Remaining int }
		a.JSON(r.t, &answer)
		require.Zero(r.t, answer.Failed, a.Body)
		if answer.Remaining == 0 {
			return true
		}
	}
	return false
}
