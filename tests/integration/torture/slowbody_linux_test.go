package torture

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

// slowBody is a connection that has sent most of a large body.
type slowBody struct {
	conn    net.Conn
	chunked bool
}

const slowSize = 15 << 20

func openSlow(server *url.URL, chunked bool) (*slowBody, error) {
	conn, err := net.Dial("tcp", server.Host)
	if err != nil {
		return nil, err
	}
	size := fmt.Sprintf("Content-Length: %d", slowSize+2)
	if chunked {
		size = "Transfer-Encoding: chunked"
	}
	_, err = fmt.Fprintf(conn, "POST /v1/ingest?table=load HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-ndjson\r\n%s\r\n\r\n", server.Host, size)
	return &slowBody{conn: conn, chunked: chunked}, err
}

// send sends all but the end; an error means that the server hung up.
func (s *slowBody) send(part []byte) error {
	for sent := 0; sent < slowSize; sent += len(part) {
		data := part
		if s.chunked {
			data = append(append(fmt.Appendf(nil, "%x\r\n", len(part)), part...), "\r\n"...)
		}
		if _, err := s.conn.Write(data); err != nil {
			return err
		}
	}
	return nil
}

// answer reads what the server says, within a time.
func (s *slowBody) answer(within time.Duration) (harness.Answer, error) {
	_ = s.conn.SetReadDeadline(time.Now().Add(within))
	response, err := http.ReadResponse(bufio.NewReader(s.conn), nil)
	if err != nil {
		return harness.Answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return harness.Answer{Status: response.StatusCode, Header: response.Header, Body: string(text)}, err
}

// Clients that send large bodies and never finish them hold memory up to a
// bound; those beyond it are refused. Once they are gone ingest goes on. The
// server has the memory of a container with memoryBound.
func TestMemoryIsBoundedWithSlowClients(t *testing.T) {
	t.Parallel()
	clickhouse := harness.StartClickHouse(t, binaries.Dir(t))
	harness.CreateLoadTable(t, clickhouse, "load")
	for _, way := range []string{"with a length", "chunked"} {
		t.Run(way, func(t *testing.T) {
			server := harness.StartServer(t, harness.ServerOptions{
				Bin: binaries.Dir(t), ClickHouse: clickhouse, Env: []string{fmt.Sprintf("GOMEMLIMIT=%d", memoryBound/10*9)},
			})
			server.AwaitReady(t)
			held, refusals := holdBodies(t, server, way == "chunked")
			most := peak(t, server.Process)
			t.Logf("%d bodies of %d MiB held, %d refused, peak %d MiB", held, slowSize>>20, refusals, most>>20)
			assert.Greater(t, held, 2, "a tenant has half of the memory for bodies")
			assert.Greater(t, refusals, 8)
			assert.LessOrEqual(t, most, int64(memoryBound))
			harness.Eventually(t, time.Minute, func() error {
				if a := server.Ingest(t, "load", `{"id":"after"}`); a.Status != http.StatusOK {
					return fmt.Errorf("%d %s", a.Status, a.Body)
				}
				return nil
			})
		})
	}
}

// holdBodies sends bodies on many connections at once, all but their ends, and
// returns how many the server holds and how many it refused.
func holdBodies(t *testing.T, server *harness.Server, chunked bool) (held, refusals int) {
	t.Helper()
	address, err := url.Parse(server.URL)
	require.NoError(t, err)
	part := []byte(strings.Repeat(" ", 64<<10-1) + "\n")
	var mu sync.Mutex
	var open []net.Conn
	var group sync.WaitGroup
	for range 60 {
		group.Go(func() {
			slow, err := openSlow(address, chunked)
			if !assert.NoError(t, err) {
				return
			}
			mu.Lock()
			open = append(open, slow.conn)
			mu.Unlock()
			sending := slow.send(part)
			a, err := slow.answer(2 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				assert.Equal(t, http.StatusServiceUnavailable, a.Status, a.Body)
				assert.Contains(t, a.Body, `"bodies.busy"`)
				refusals++
			case sending == nil:
				held++
			default:
				// Refused, and the answer was lost with the connection.
				refusals++
			}
		})
	}
	group.Wait()
	for _, conn := range open {
		_ = conn.Close()
	}
	return held, refusals
}
