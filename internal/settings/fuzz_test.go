package settings

import (
	"encoding/json"
	"testing"

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
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		c := content{files: map[string][]byte{}}
		for _, name := range fileNames() {
			c.files[name] = []byte("{}")
		}
		c.files[fileNames()[int(which)%len(fileNames())]] = data
		s, findings := compile(tenant.Default, c)
		if (s == nil) != HasErrors(findings) {
			t.Fatalf("adopted with errors, or refused without: %v", findings)
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
