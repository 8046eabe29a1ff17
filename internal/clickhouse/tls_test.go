package clickhouse_test

import (
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
)

func TestHTTPSVerifiesTheServer(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("1\n")) }))
	t.Cleanup(server.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(t, os.WriteFile(ca, block, 0o600))
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(t, err)
	n, err := strconv.Atoi(port)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		tls clickhouse.TLS
		ok  bool
	}{
		"the system's authorities": {clickhouse.TLS{}, false},
		"its authority":            {clickhouse.TLS{CAFile: ca}, true},
		"another name":             {clickhouse.TLS{CAFile: ca, ServerName: "elsewhere.example"}, false},
		"no verification":          {clickhouse.TLS{InsecureSkipVerify: true}, true},
	} {
		config := clickhouse.Config{Addr: "127.0.0.1:1", HTTPScheme: "https", HTTPPort: n, Database: "d", TLS: c.tls}
		_, err := read(t, poolOf(t, config), clickhouse.Request{SQL: "SELECT 1"})
		require.Equal(t, c.ok, err == nil, "%s: %v", name, err)
	}
}
