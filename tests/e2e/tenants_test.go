package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

// town is a server over a folder for each tenant, each with its own database.
type town struct {
	*harness.Server
	t          *testing.T
	clickhouse *harness.ClickHouse
}

func newTown(t *testing.T) *town {
	dir := binaries.Dir(t)
	c := &town{t: t, clickhouse: harness.StartClickHouse(t, dir)}
	c.Server = harness.NewNested(t, harness.ServerOptions{Bin: dir, ClickHouse: c.clickhouse})
	return c
}

// settle makes a tenant's database and folder.
func (c *town) settle(tenant string) {
	c.t.Helper()
	c.clickhouse.Must(c.t, "CREATE DATABASE IF NOT EXISTS "+tenant)
	c.clickhouse.Must(c.t, "CREATE TABLE IF NOT EXISTS "+tenant+".clicks (page String, n Int64) ENGINE = MergeTree ORDER BY page")
	c.WriteTenant(c.t, tenant, map[string]string{"clickhouse": fmt.Sprintf(
		`{"addr":"127.0.0.1","http_port":%d,"database":%q}`, c.clickhouse.HTTPPort, tenant)})
}

func (c *town) hangup() {
	c.t.Helper()
	c.Signal(syscall.SIGHUP)
}

// status is what an ingest of the tenant is answered.
func (c *town) status(tenant string) int {
	c.t.Helper()
	return c.Do(c.t, http.MethodPost, "/v1/ingest?table=clicks", `{"page":"/","n":1}`, "Content-Type", "application/json", "X-Tenant-ID", tenant).Status
}

func (c *town) await(tenant string, status int) {
	c.t.Helper()
	harness.Eventually(c.t, time.Minute, func() error {
		if got := c.status(tenant); got != status {
			return fmt.Errorf("tenant %s: %d, not yet %d", tenant, got, status)
		}
		return nil
	})
}

func (c *town) rows(tenant string) string {
	c.t.Helper()
	return strings.TrimSpace(c.clickhouse.Must(c.t, "SELECT count() > 0 FROM "+tenant+".clicks"))
}

// The built binary serves a folder for each tenant and follows SIGHUP: folders
// that come, break, are repaired and go.
func TestTenantsFollowSIGHUP(t *testing.T) {
	t.Parallel()
	c := newTown(t)
	c.settle("acme")
	c.settle("birch")
	broken := filepath.Join(c.SettingsDir, "birch", "policies.json")
	good, err := os.ReadFile(broken)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(broken, []byte("{"), 0o600))
	c.Start(t)
	c.await("acme", http.StatusOK)
	require.Equal(t, http.StatusServiceUnavailable, c.status("birch"))
	require.Equal(t, http.StatusNotFound, c.status("cedar"))
	require.Contains(t, c.Output(), "birch/policies.json")

	require.NoError(t, os.WriteFile(broken, good, 0o600))
	c.settle("cedar")
	c.hangup()
	c.await("birch", http.StatusOK)
	c.await("cedar", http.StatusOK)

	require.NoError(t, os.WriteFile(broken, []byte("{"), 0o600))
	c.RemoveTenant(t, "cedar")
	c.hangup()
	c.await("birch", http.StatusServiceUnavailable)
	c.await("cedar", http.StatusNotFound)
	c.await("acme", http.StatusOK)

	// Nothing but a signal or a request makes it look.
	c.settle("elm")
	require.Equal(t, http.StatusNotFound, c.status("elm"))
	answer := c.Ops(t, http.MethodPost, "/v1/ops/settings/reload", "")
	require.Equal(t, http.StatusUnprocessableEntity, answer.Status, answer.Body)
	c.await("elm", http.StatusOK)

	// Killed and started again over what is there.
	c.Kill()
	c.Start(t)
	c.await("acme", http.StatusOK)
	require.Equal(t, http.StatusServiceUnavailable, c.status("birch"))
	states := map[string]string{}
	var list []struct{ Tenant, State string }
	require.NoError(t, json.Unmarshal([]byte(c.Ops(t, http.MethodGet, "/v1/ops/tenants", "").Body), &list))
	for _, tenant := range list {
		states[tenant.Tenant] = tenant.State
	}
	require.Equal(t, map[string]string{"acme": "served", "birch": "rejected", "elm": "served", "cedar": "removed"}, states)
	for _, tenant := range []string{"acme", "elm"} {
		harness.Eventually(t, time.Minute, func() error {
			if c.rows(tenant) != "1" {
				return fmt.Errorf("nothing in %s", tenant)
			}
			return nil
		})
	}
}
