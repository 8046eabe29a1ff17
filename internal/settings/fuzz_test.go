package settings

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// FuzzFiles: any bytes in any file yield findings, never a panic, and never a
// snapshot of something that was not read whole.
func FuzzFiles(f *testing.F) {
	for i, text := range []string{
		`{"clickhouse": {"tls": {"enabled": true}}, "dedupe": {"retention": "3m"}, "mq": {"max_bytes_gb": 1}}`,
		openPolicy, `{"pipes": [{"name": "a", "parameters": [{"required": true, "default": 1}]}]}`, `{"roles": ["public"]}`,
		"\xef\xbb\xbfnull", `{"$comment": [1], "$schema": {`,
	} {
		f.Add(uint8(i), []byte(text))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		for _, name := range fileNames() {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("{}"), 0o600))
		}
		name := fileNames()[int(which)%len(fileNames())]
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
		r := Validate(dir)
		s := r.Tenants[tenant.Default]
		if (s != nil) != r.OK() {
			t.Fatalf("adopted with errors, or refused without: %v", r.Findings)
		}
		if s == nil {
			return
		}
		if !json.Valid(data) {
			t.Fatalf("adopted what is not JSON: %q", data)
		}
		if _, err := s.Config.Show(); err != nil {
			t.Fatal(err)
		}
	})
}
