package bench

import "sync"

// rawConns keeps connections that nobody uses, by address.
type rawConns struct {
	mu   sync.Mutex
	idle map[string][]*rawConn
}

func (c *rawConns) take(addr string) (*rawConn, error) {
	c.mu.Lock()
	idle := c.idle[addr]
	if n := len(idle); n > 0 {
		c.idle[addr] = idle[:n-1]
		c.mu.Unlock()
		return idle[n-1], nil
	}
	c.mu.Unlock()
	return dialRaw(addr)
}

func (c *rawConns) giveBack(addr string, conn *rawConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle == nil {
		c.idle = map[string][]*rawConn{}
	}
	c.idle[addr] = append(c.idle[addr], conn)
}

func (c *rawConns) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, idle := range c.idle {
		for _, conn := range idle {
			_ = conn.conn.Close()
		}
	}
	c.idle = nil
}
