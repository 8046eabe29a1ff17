package harness

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// NewNested writes a settings directory with a folder per tenant. Start runs
// the server on it.
func NewNested(t testing.TB, o ServerOptions, tenants ...string) *Server {
	t.Helper()
	s := &Server{SettingsDir: t.TempDir(), DataDir: t.TempDir(), options: o}
	for _, tenant := range tenants {
		s.WriteTenant(t, tenant, nil)
	}
	return s
}

// WriteTenant writes a tenant's folder whole: it appears, or replaces the one
// before it, by a rename. more holds sections of its config.json besides those
// of the server's options.
func (s *Server) WriteTenant(t testing.TB, tenant string, more map[string]string) {
	t.Helper()
	config := map[string]json.RawMessage{"clickhouse": json.RawMessage(fmt.Sprintf(
		`{"addr":%q,"http_port":%d}`, s.options.ClickHouse.Addr(), s.options.ClickHouse.HTTPPort))}
	for _, sections := range []map[string]string{s.options.Config, more} {
		for key, value := range sections {
			config[key] = json.RawMessage(value)
		}
	}
	text, err := json.Marshal(config)
	require.NoError(t, err)
	policies := s.options.Policies
	if policies == "" {
		policies = OpenPolicy
	}
	next := filepath.Join(s.SettingsDir, ".next-"+tenant)
	require.NoError(t, os.MkdirAll(next, 0o750))
	for name, content := range map[string]string{
		"config.json": string(text), "policies.json": policies, "pipes.json": "{}",
		"roles.json": `{"roles":["public","viewer","writer"]}`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(next, name), []byte(content), 0o600))
	}
	s.RemoveTenant(t, tenant)
	require.NoError(t, os.Rename(next, filepath.Join(s.SettingsDir, tenant)))
}

// RemoveTenant removes a tenant's folder.
func (s *Server) RemoveTenant(t testing.TB, tenant string) {
	t.Helper()
	require.NoError(t, os.RemoveAll(filepath.Join(s.SettingsDir, tenant)))
}
