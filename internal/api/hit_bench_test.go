package api

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/cache/local"
	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// benchPools give a real pool that nothing is asked of.
type benchPools struct {
	*testBackends
	pools *clickhouse.Pools
}

func (p benchPools) Get(id tenant.ID) (*clickhouse.Pool, error) { return p.pools.Get(id) }

// filled answers every miss with the same rows.
type filled struct{ *cache.Reads }

func (f filled) Get(ctx context.Context, q cache.Query) (*cache.Value, cache.Outcome, error) {
	q.Run = func(context.Context) (cache.Answer, error) {
		body := "[" + strings.Repeat(`{"page":"/home","views":412},`, 20) + `{"page":"/","views":1}]`
		return cache.Answer{Body: []byte(body), ContentType: "application/json"}, nil
	}
	return f.Reads.Get(ctx, q)
}

// BenchmarkHit is a cached answer over HTTP, with the tenant, the token and a
// row filter, beside a handler that only reads the body and answers as much.
func BenchmarkHit(b *testing.B) {
	const document = `{"columns":["page"],"aggregations":[{"fn":"count","column":"*","alias":"views"}],"group_by":["page"],
		"filters":[{"column":"n","op":"gt","value":10}],"order_by":[{"column":"views","dir":"desc"}],"limit":20}`
	pools := clickhouse.NewPools(clickhouse.Options{})
	pools.Reconcile(map[tenant.ID]clickhouse.Config{tenant.Default: {Addr: "127.0.0.1:1", HTTPPort: 1, Database: "d", Username: "u"}})
	store, err := local.New(local.Options{MaxBytes: 64 << 20})
	require.NoError(b, err)
	defer func() { _ = store.Close(b.Context()) }()
	rig := newRig(b, `{"tables":{"pages":{"viewer":{"select":{"filter":{"page":{"_neq":"{{ jwt.sub }}"}}}}}}}`)
	rig.options.Pools = benchPools{rig.testBackends, pools}
	rig.options.Results = filled{cache.NewReads(cache.ReadsOptions{Cache: store})}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"role": "viewer", "sub": "someone", "exp": time.Now().Add(time.Hour).Unix(),
	}).SignedString([]byte(testSecret))
	require.NoError(b, err)
	bare := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "["+strings.Repeat(`{"page":"/home","views":412},`, 20)+`{"page":"/","views":1}]`)
	})
	for name, handler := range map[string]http.Handler{"cached": NewServer(rig.options), "bare": bare} {
		b.Run(name, func(b *testing.B) {
			server := httptest.NewServer(handler)
			defer server.Close()
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}}
			b.ReportAllocs()
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					request, _ := http.NewRequest(http.MethodPost, server.URL+"/v1/query?table=pages", strings.NewReader(document))
					request.Header.Set("Authorization", "Bearer "+token)
					response, err := client.Do(request)
					if err != nil || response.StatusCode != http.StatusOK {
						b.Fatal(err, response)
					}
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
				}
			})
		})
		b.Run(name+"/handler", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				request := httptest.NewRequest(http.MethodPost, "/v1/query?table=pages", strings.NewReader(document))
				request.Header.Set("Authorization", "Bearer "+token)
				handler.ServeHTTP(httptest.NewRecorder(), request)
			}
		})
	}
}
