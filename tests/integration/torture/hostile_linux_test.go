package torture

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

const (
	// hostileFor is how long the clients of one tenant are hostile, at least.
	hostileFor = 40 * time.Second
	// patience is how long a caller of another tenant waits at most, on a machine
	// that is busy with all the hostile ones, and more.
	patience = time.Minute
	// enough is how often that caller is served while they are.
	enough = 3
)

// hostile are the clients of a tenant that mean no good.
type hostile struct {
	t       *testing.T
	host    string
	until   context.Context
	all     sync.WaitGroup
	answers sync.Map // status line to *atomic.Int64
}

// each runs n clients, each of which begins anew when the server has done with it.
func (h *hostile) each(n int, client func(conn net.Conn)) {
	for range n {
		h.all.Go(func() {
			for h.until.Err() == nil {
				conn, err := net.DialTimeout("tcp", h.host, 5*time.Second)
				if err != nil {
					continue
				}
				stop := context.AfterFunc(h.until, func() { _ = conn.Close() })
				client(conn)
				stop()
				_ = conn.Close()
			}
		})
	}
}

func (h *hostile) head(conn net.Conn, method, path, headers string) {
	_, _ = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nX-Tenant-ID: hostile\r\n%s\r\n", method, path, headers)
}

// status reads the first line of an answer and counts it.
func (h *hostile) status(conn net.Conn) {
	line := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(conn, line); err == nil {
		count, _ := h.answers.LoadOrStore(string(line), new(atomic.Int64))
		count.(*atomic.Int64).Add(1)
	}
}

// cutOff waits until the server resets the connection, without reading.
func (h *hostile) cutOff(conn net.Conn) {
	for h.until.Err() == nil {
		time.Sleep(200 * time.Millisecond)
		if _, err := conn.Write([]byte("\r\n")); err != nil {
			return
		}
	}
}

// readers ask for large answers and do not read them, or hardly.
func (h *hostile) readers() {
	for _, encoding := range []string{"identity", "gzip", "zstd"} {
		h.each(12, func(conn net.Conn) {
			_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
			h.head(conn, "GET", "/v1/pipes/large", "Accept-Encoding: "+encoding+"\r\n")
			h.status(conn)
			h.cutOff(conn)
		})
	}
	h.each(20, func(conn net.Conn) {
		_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		h.head(conn, "GET", "/v1/pipes/large", "")
		h.status(conn)
		for piece := make([]byte, 2<<10); ; time.Sleep(100 * time.Millisecond) {
			if _, err := conn.Read(piece); err != nil {
				return
			}
		}
	})
	var n atomic.Int64
	h.each(20, func(conn net.Conn) { // each another answer, of a size that is held
		_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		h.head(conn, "GET", fmt.Sprintf("/v1/pipes/held?seed=%d", n.Add(1)), "")
		h.status(conn)
		h.cutOff(conn)
	})
}

// bodies send much less than they say, or in a way that takes much to undo.
func (h *hostile) bodies() {
	ingest := func(conn net.Conn, headers string, body []byte) {
		h.head(conn, "POST", "/v1/ingest?table=events", "Content-Type: application/x-ndjson\r\n"+headers)
		_, _ = conn.Write(body)
		h.status(conn)
	}
	h.each(100, func(conn net.Conn) { ingest(conn, "Content-Length: 16777216\r\n", []byte(" ")) })
	part := bytes.Repeat([]byte(" "), 12<<20)
	h.each(40, func(conn net.Conn) { ingest(conn, "Content-Length: 16777216\r\n", part) })
	var zipped, window bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, _ = w.Write(bytes.Repeat([]byte("\n"), 15<<20))
	_ = w.Close()
	z, err := zstd.NewWriter(&window, zstd.WithWindowSize(8<<20))
	require.NoError(h.t, err)
	_, _ = z.Write(bytes.Repeat([]byte("\n"), 15<<20))
	_ = z.Close()
	for encoding, bomb := range map[string][]byte{"gzip": zipped.Bytes(), "zstd": window.Bytes()} {
		headers := fmt.Sprintf("Content-Encoding: %s\r\nContent-Length: %d\r\n", encoding, len(bomb))
		h.each(20, func(conn net.Conn) { ingest(conn, headers, bomb) })
		h.each(120, func(conn net.Conn) { ingest(conn, headers, bomb[:len(bomb)-4]) })
	}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	for range 4 {
		transport := &http.Transport{Protocols: protocols}
		h.t.Cleanup(transport.CloseIdleConnections)
		for range 250 {
			h.all.Go(func() {
				for h.until.Err() == nil {
					request, err := http.NewRequestWithContext(h.until, http.MethodPost, "http://"+h.host+"/v1/ingest?table=events", &slowly{ctx: h.until})
					if err != nil {
						return
					}
					request.Header.Set("X-Tenant-ID", "hostile")
					request.Header.Set("Content-Type", "application/x-ndjson")
					if response, err := transport.RoundTrip(request); err == nil {
						_ = response.Body.Close()
					}
				}
			})
		}
	}
}

// slowly is a body of which a piece comes now and then.
type slowly struct {
	ctx  context.Context
	sent int
}

func (s *slowly) Read(p []byte) (int, error) {
	if s.sent >= 1<<20 {
		select {
		case <-s.ctx.Done():
			return 0, s.ctx.Err()
		case <-time.After(time.Second):
		}
	}
	n := copy(p, bytes.Repeat([]byte(" "), min(len(p), 16<<10)))
	s.sent += n
	return n, nil
}

// streams open and are not read, some of them from the beginning of history.
func (h *hostile) streams() {
	for _, since := range []string{"", "&since=2020-01-01T00:00:00Z"} {
		h.each(700, func(conn net.Conn) {
			_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
			h.head(conn, "GET", "/v1/stream?table=events"+since, "")
			h.status(conn)
			h.cutOff(conn)
		})
	}
}

// However one tenant's clients read and write, the server lives in 512 MiB, and
// another tenant's are served. Where the machine has no control groups to give, the
// server is told its limit, and what it has resident is held against it.
func TestHostileClientsCostTheirTenantAlone(t *testing.T) {
	t.Parallel()
	clickhouse := harness.StartClickHouse(t, binaries.Dir(t))
	o := harness.ServerOptions{Bin: binaries.Dir(t), ClickHouse: clickhouse, Group: newGroup(t, memoryBound)}
	if o.Group == "" {
		o.Env = []string{fmt.Sprintf("WH_LIMITS_MEMORY=%d", memoryBound)}
	}
	server := harness.NewNested(t, o)
	for _, tenant := range []string{"hostile", "victim"} {
		clickhouse.Must(t, "CREATE DATABASE db_"+tenant)
		clickhouse.Must(t, "CREATE TABLE db_"+tenant+".events"+eventTable)
		server.WriteTenant(t, tenant, map[string]string{
			"clickhouse": fmt.Sprintf(`{"addr":"127.0.0.1","http_port":%d,"database":"db_%s"}`, clickhouse.HTTPPort, tenant),
			"ingest":     `{"flush":{"max_wait":"200ms"}}`,
		})
	}
	pipes := `{"pipes":[{"name":"large","allowed_roles":["public"],"cache":{"ttl":"0s"},"sql":"SELECT number, repeat('x', 1000) AS text FROM numbers(60000)"},
		{"name":"held","allowed_roles":["public"],"parameters":[{"name":"seed","type":"number"}],"sql":"SELECT number + {{seed}} AS n, repeat('y', 1000) AS text FROM numbers(3500)"}]}`
	require.NoError(t, os.WriteFile(filepath.Join(server.SettingsDir, "hostile", "pipes.json"), []byte(pipes), 0o600))
	server.Start(t)
	attacker, victim := newPusher(t, server, "hostile"), newPusher(t, server, "victim")
	for _, p := range []*pusher{attacker, victim} {
		harness.Eventually(t, 60*time.Second, func() error {
			if a, err := p.post(p.fresh()); err != nil || a.Status != http.StatusOK {
				return fmt.Errorf("%v %w", a, err)
			}
			return nil
		})
	}
	attacker.push(t, 40<<20) // history for streams to read

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	until := time.Now().Add(hostileFor)
	h := &hostile{t: t, host: strings.TrimPrefix(server.URL, "http://"), until: ctx}
	h.readers()
	h.bodies()
	h.streams()
	var slowest time.Duration
	served := 0
	for (served < enough || time.Now().Before(until)) && !t.Failed() {
		began := time.Now()
		callAs(t, server, "victim", "/v1/ingest?table=events", `{"id":"mine","session":"s","page":"p","referrer":"r","country":"NL","score":1,"at":"2026-01-01T00:00:00Z","agent":"a"}`)
		callAs(t, server, "victim", "/v1/query?table=events", fmt.Sprintf(`{"columns":["id"],"limit":%d}`, 1+served%100))
		slowest = max(slowest, time.Since(began))
		served++
		time.Sleep(50 * time.Millisecond)
	}
	cancel()
	h.all.Wait()
	h.answers.Range(func(status, n any) bool {
		t.Logf("%s: %d times", status, n.(*atomic.Int64).Load())
		return true
	})
	select {
	case <-server.Exited():
		require.FailNow(t, "the server ended")
	default:
	}
	if o.Group != "" {
		t.Logf("the group had %d MiB at most, files included", groupPeak(t, o.Group)>>20)
	}
	t.Logf("the other tenant was served %d times, in %s at most; peak %d MiB", served, slowest, peak(t, server.Process)>>20)
	assert.LessOrEqual(t, peak(t, server.Process), int64(memoryBound))
	harness.Eventually(t, 60*time.Second, func() error {
		if a, err := attacker.post(attacker.fresh()); err != nil || a.Status != http.StatusOK {
			return fmt.Errorf("%v %w", a, err)
		}
		return nil
	})
}

// callAs makes a request of a tenant, which must succeed in time.
func callAs(t *testing.T, server *harness.Server, tenant, path, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("X-Tenant-ID", tenant)
	request.Header.Set("Content-Type", "application/json")
	response, err := harness.Client.Do(request)
	if !assert.NoError(t, err) {
		return
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	assert.NoError(t, err)
	assert.Equal(t, http.StatusOK, response.StatusCode, "%s: %s", path, text)
}
