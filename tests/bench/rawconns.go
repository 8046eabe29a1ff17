package bench

import (
	"sync"
	"time"
)

// keptFor is how long a connection may lie unused: a server closes it later.
const keptFor = 30 * time.Second

// rawConns keeps connections that nobody uses, by address.
type rawConns struct {
	mu   sync.Mutex
	idle map[string][]idleConn
}

type idleConn struct {
	*rawConn
	since time.Time
}

// take returns the connection that was used last, or a new one.
func (c *rawConns) take(addr string) (*rawConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	idle := c.idle[addr]
	if n := len(idle); n > 0 && time.Since(idle[n-1].since) < keptFor {
		c.idle[addr] = idle[:n-1]
		return idle[n-1].rawConn, nil
	}
	for _, conn := range idle {
		_ = conn.conn.Close()
	}
	c.idle[addr] = nil
	return dialRaw(addr)
}

func (c *rawConns) giveBack(addr string, conn *rawConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle[addr] = append(c.idle[addr], idleConn{conn, time.Now()})
}

func (c *rawConns) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, idle := range c.idle {
		for _, conn := range idle {
			_ = conn.conn.Close()
		}
	}
	c.idle = map[string][]idleConn{}
}
