package redis_test

import (
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/cache/cachetest"
	"github.com/wavehouse/wavehouse/internal/cache/redis"
	"github.com/wavehouse/wavehouse/internal/cache/redis/redistest"
	"github.com/wavehouse/wavehouse/internal/certtest"
)

// The suite passes over TLS, with certificates on both sides; without the right ones
// the server is not used, and what is wrong is named.
func TestConnectionsAreEncrypted(t *testing.T) {
	redistest.Each(t, func(t *testing.T, flavor redistest.Flavor) {
		files, others, port := certtest.Issue(t), certtest.Issue(t), redistest.FreePort(t)
		s := redistest.Start(t, flavor, "--save", "", "--tls-port", strconv.Itoa(port), "--tls-auth-clients", "yes",
			"--tls-cert-file", files.ServerCert, "--tls-key-file", files.ServerKey, "--tls-ca-cert-file", files.CA)
		o := quick()
		o.Addresses = []string{net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
		for want, secured := range map[string]redis.TLS{
			"unknown authority":       {Enabled: true, CAFile: others.CA, CertFile: files.ClientCert, KeyFile: files.ClientKey},
			"certificate required":    {Enabled: true, CAFile: files.CA},
			"wanted to match another": {Enabled: true, CAFile: files.CA, CertFile: files.ClientCert, KeyFile: files.ClientKey, ServerName: "another"},
		} {
			wrong := o
			wrong.TLS, wrong.OpTimeout, wrong.Timing.Lease = secured, 400*time.Millisecond, time.Second
			c := open(t, wrong)
			require.Eventually(t, func() bool {
				_, _ = c.Lookup(t.Context(), cache.Key{Tenant: "birch"})
				err := c.Status()
				return err != nil && strings.Contains(err.Error(), want)
			}, time.Minute, 20*time.Millisecond, "%s", want)
		}
		o.TLS = redis.TLS{Enabled: true, CAFile: files.CA, CertFile: files.ClientCert, KeyFile: files.ClientKey}
		conform(t, o, func(t *testing.T) { s.Do(t, "FLUSHALL") }, cachetest.Capabilities{})
	})
}
