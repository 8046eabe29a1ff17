package settings

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestKeySetURLs(t *testing.T) {
	const malformed, unencrypted = "want a URL like", "the keys travel unencrypted"
	for address, want := range map[string]struct{ err, warning string }{
		"":                                 {},
		"https://id.example.com/jwks.json": {},
		"https://id.example.com:8443/realms/a%20b/certs?p=1":  {},
		"http://localhost:8080/jwks":                          {},
		"http://127.0.0.1/jwks":                               {},
		"http://[::1]:99/jwks":                                {},
		"http://id.internal/jwks":                             {warning: unencrypted},
		"http://localhost.example.com/jwks":                   {warning: unencrypted},
		"id.example.com/jwks.json":                            {err: malformed},
		"//id.example.com/jwks.json":                          {err: malformed},
		"file:///etc/jwks.json":                               {err: malformed},
		"ftp://id.example.com/jwks":                           {err: malformed},
		"https:///jwks":                                       {err: malformed},
		"https://:443/jwks":                                   {err: malformed},
		"https://id.example.com:99999/":                       {err: malformed},
		"https://id.example.com:0/":                           {err: malformed},
		"https://id.example.com/%zz":                          {err: malformed},
		"https://me:secret@id.example.com/":                   {err: "must not hold a user name"},
		"https://id.example.com/jwks#keys":                    {err: "must not hold a fragment"},
		"https://id.example.com/" + strings.Repeat("a", 2048): {err: "want at most 2048 bytes"},
	} {
		text, err := json.Marshal(map[string]any{"auth": map[string]any{"jwks_url": address}})
		require.NoError(t, err)
		r := Validate(served().with(fileConfig, string(text)).dir(t))
		for severity, message := range map[string]string{SeverityError: want.err, SeverityWarning: want.warning} {
			found := severityOf(r.Findings, severity)
			if message == "" {
				assert.Empty(t, found, address)
				continue
			}
			require.Len(t, found, 1, address)
			assert.Contains(t, found[0], "config.json:1: "+severity+": auth.jwks_url: "+message, address)
			assert.NotContains(t, found[0], "secret", "a finding never repeats credentials")
		}
	}
}
