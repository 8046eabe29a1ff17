package cluster

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

// sieve leads to a server and keeps back notices that hold a text, of those that its
// clients tell or of those that they are told. Nobody hears of that.
type sieve struct {
	url              string
	telling, hearing atomic.Pointer[string] // nil lets all through
}

func setUp(t *testing.T, server string) *sieve {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	s := &sieve{url: "nats://" + listener.Addr().String()}
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", strings.TrimPrefix(server, "nats://"))
			if err != nil {
				_ = near.Close()
				continue
			}
			go carryNotices(near, far, &s.telling)
			go carryNotices(far, near, &s.hearing)
		}
	}()
	return s
}

// carryNotices carries the protocol of NATS, message by message.
func carryNotices(from, to net.Conn, kept *atomic.Pointer[string]) {
	defer func() { _, _ = from.Close(), to.Close() }()
	for in := bufio.NewReader(from); ; {
		line, err := in.ReadString('\n')
		fields, size, message := strings.Fields(line), 0, false
		if len(fields) > 2 && err == nil {
			switch strings.ToUpper(fields[0]) {
			case "PUB", "HPUB", "MSG", "HMSG":
				message = true
				_, err = fmt.Sscan(fields[len(fields)-1], &size)
				size += len("\r\n")
			}
		}
		body := make([]byte, size)
		if err == nil {
			_, err = io.ReadFull(in, body)
		}
		if err != nil {
			return
		}
		if text := kept.Load(); message && text != nil && fields[1] == "wh.notice.told" && bytes.Contains(body, []byte(*text)) {
			continue
		}
		if _, err := to.Write(append([]byte(line), body...)); err != nil {
			return
		}
	}
}

// Notices get lost: those of the writer's writes, while its signs of life come
// through; then all that a process is told. Who waits for rows is never told more than
// is known, cached answers are dropped, and a query's position is right, since both
// ask the queue; and once notices come through all is as before.
func TestNoticesGetLost(t *testing.T) {
	t.Parallel()
	s := start(t, 1, map[string]string{"ingest": `{"flush":{"max_wait":"20ms"}}`})
	s.clickhouse.Must(t, "CREATE TABLE pages (n UInt64, CONSTRAINT small CHECK n < 900) ENGINE = MergeTree ORDER BY n")
	mouth, ears := setUp(t, s.nats.URLs()[0]), setUp(t, s.nats.URLs()[0])
	api, deaf := s.process("api", "api"), s.processBy(ears.url, "deaf", "api")
	s.processBy(mouth.url, "writer", "ingest")
	for _, p := range []*harness.Server{api, deaf} {
		p.AwaitReady(t)
		s.awaitShards(p, "writer")
	}
	rows := 0
	// put inserts rows until one is known to be there: at first what was told before may
	// be missing.
	put := func(p *harness.Server) {
		t.Helper()
		harness.Eventually(t, patience, func() error {
			a := p.Do(t, http.MethodPost, "/v1/ingest?wait=inserted&timeout=30s&table=pages", fmt.Sprintf(`{"n":%d}`, rows+1), "Content-Type", "application/json")
			if a.Status < http.StatusBadRequest {
				rows++
			}
			if a.Status != http.StatusOK {
				return fmt.Errorf("%d %s", a.Status, a.Body)
			}
			return nil
		})
	}
	// unknown inserts one of which nobody can say how it went. It may be waited for in
	// vain, but never be told of as inserted.
	unknown := func(p *harness.Server, n int) {
		t.Helper()
		a := p.Do(t, http.MethodPost, "/v1/ingest?wait=inserted&timeout=30s&table=pages", fmt.Sprintf(`{"n":%d}`, n), "Content-Type", "application/json")
		assert.Equal(t, http.StatusAccepted, a.Status, a.Body)
		assert.Contains(t, a.Body, `"inserted":false`)
	}
	counts := func(p *harness.Server) {
		t.Helper()
		harness.Eventually(t, patience, func() error {
			a := p.Query(t, "pages", `{"aggregations":[{"fn":"count","column":"*","alias":"k"}]}`)
			if want := fmt.Sprintf(`[{"k":%d}]`, rows); strings.Join(strings.Fields(a.Body), "") != want {
				return fmt.Errorf("%s: want %s, by %s", a.Body, want, a.Header.Get("X-Cache"))
			}
			return nil
		})
	}
	joins := func(p *harness.Server) {
		t.Helper()
		var a harness.Answer
		harness.Eventually(t, patience, func() error {
			a = p.Do(t, http.MethodPost, "/v1/query?table=pages&position=1", `{"columns":["n"]}`)
			if a.Status != http.StatusOK || a.Header.Get("X-Stream-Join") != "exact" {
				return fmt.Errorf("%d, join %q", a.Status, a.Header.Get("X-Stream-Join"))
			}
			return nil
		})
		assert.Equal(t, rows, strings.Count(a.Body, `"n"`))
		rows++
		answer := p.Ingest(t, "pages", fmt.Sprintf(`{"n":%d}`, rows))
		require.Equal(t, http.StatusOK, answer.Status, answer.Body)
		stream := follow(t, p, "pages", a.Header.Get("X-Stream-Position"))
		defer stream.Close()
		assert.Equal(t, rows, rowOf(t, stream), "behind what the query showed comes the next row")
	}
	put(api)
	put(deaf)
	counts(api)

	writes := `"written"`
	mouth.telling.Store(&writes)
	rows++
	unknown(api, rows)
	unknown(api, 900) // becomes a dead letter, which the floor does not tell
	counts(api)
	joins(api)
	mouth.telling.Store(nil)

	all := ""
	ears.hearing.Store(&all)
	harness.Eventually(t, patience, func() error {
		if a := deaf.Do(t, http.MethodGet, "/readyz", "", "X-Operator-Key", harness.OperatorKey); !strings.Contains(a.Body, "wh.notice.told does not come back") {
			return fmt.Errorf("%s", a.Body)
		}
		return nil
	})
	rows++
	unknown(deaf, rows)
	counts(deaf)
	put(api)
	counts(deaf)
	joins(deaf)
	ears.hearing.Store(nil)
	harness.Eventually(t, patience, func() error {
		if a := deaf.Do(t, http.MethodGet, "/readyz", "", "X-Operator-Key", harness.OperatorKey); strings.Contains(a.Body, "does not come back") {
			return fmt.Errorf("%s", a.Body)
		}
		return nil
	})
	put(deaf)
	counts(deaf)
}
