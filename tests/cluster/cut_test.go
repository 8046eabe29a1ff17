package cluster

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

// cable leads to a server, until it is cut: then nothing gets through, either way, and
// nobody is told.
type cable struct {
	listener net.Listener
	to       string

	mu   sync.Mutex
	cut  bool
	ends []net.Conn
}

func lay(t *testing.T, to string) *cable {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &cable{listener: listener, to: to}
	t.Cleanup(func() { _ = listener.Close(); c.setCut(true); c.hangUp() })
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			go c.join(near)
		}
	}()
	return c
}

func (c *cable) join(near net.Conn) {
	far, err := net.Dial("tcp", c.to)
	if err != nil {
		_ = near.Close()
		return
	}
	c.mu.Lock()
	c.ends = append(c.ends, near, far)
	c.mu.Unlock()
	go c.carry(near, far)
	c.carry(far, near)
}

// carry swallows what comes while the cable is cut.
func (c *cable) carry(from, to net.Conn) {
	defer func() { _ = to.Close() }()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		c.mu.Lock()
		cut := c.cut
		c.mu.Unlock()
		if !cut && n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if errors.Is(err, io.EOF) && cut {
			continue
		}
		if err != nil {
			return
		}
	}
}

func (c *cable) setCut(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
}

// hangUp ends all connections, whose streams of bytes have holes.
func (c *cable) hangUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, end := range c.ends {
		_ = end.Close()
	}
	c.ends = nil
}

// A process that is cut off from NATS keeps running, and learns of nothing: its shards
// are another's and it refuses inserts, and when it is back it has some again and takes
// rows. No row is lost or stored twice.
func TestAProcessThatIsCutOff(t *testing.T) {
	t.Parallel()
	s := start(t, 1, map[string]string{"ingest": `{"flush":{"max_wait":"100ms"}}`})
	s.clickhouse.Must(t, "CREATE TABLE load (id String, note String DEFAULT '') ENGINE = MergeTree ORDER BY id SETTINGS non_replicated_deduplication_window = 10000")
	api := s.process("api", "api")
	api.AwaitReady(t)
	line := lay(t, strings.TrimPrefix(s.nats.URLs()[0], "nats://"))
	cut := s.processBy("nats://"+line.listener.Addr().String(), "cut", "api,ingest")
	s.process("other", "ingest")
	load := harness.StartLoad(func() string { return api.URL }, "load", 3)
	s.awaitShards(api, "cut", "other")
	under(t, load, "the start")

	line.setCut(true)
	refused := cut.Ingest(t, "load", `{"id":"refused"}`)
	assert.Equal(t, http.StatusServiceUnavailable, refused.Status, refused.Body)
	assert.Contains(t, refused.Body, `"queue.`)
	s.awaitShards(api, "other")
	under(t, load, "the cut")
	line.setCut(false)
	line.hangUp()
	s.awaitShards(api, "cut", "other")
	harness.Eventually(t, patience, func() error {
		if a := cut.Ingest(t, "load", `{"id":"taken"}`); a.Status != http.StatusOK {
			return fmt.Errorf("%d %s", a.Status, a.Body)
		}
		return nil
	})
	under(t, load, "the mending")
	load.Stop()
	assert.Zero(t, load.Account(t, s.clickhouse, patience))
}
