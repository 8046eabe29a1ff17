package app

import (
	"io"
	"net"
	"sync"
	"time"
)

// deadlineSlack is how much sooner than asked a deadline may come. The deadlines of a
// server are seconds away, and those of requests on one connection a little after
// each other.
const deadlineSlack = 250 * time.Millisecond

// deadlineConn tells the connection of a deadline when somebody is about to wait, and
// only when it is another one than before. A server sets half a dozen for a request,
// of which it waits for one or two: each costs a timer of the runtime.
type deadlineConn struct {
	*net.TCPConn
	reads, writes deadline
}

// Read implements io.Reader.
func (c *deadlineConn) Read(p []byte) (int, error) {
	if err := c.reads.wait(c.TCPConn.SetReadDeadline); err != nil {
		return 0, err
	}
	defer c.reads.done()
	return c.TCPConn.Read(p) //nolint:wrapcheck // the connection's own
}

// WriteTo implements io.WriterTo.
func (c *deadlineConn) WriteTo(w io.Writer) (int64, error) {
	if err := c.reads.wait(c.TCPConn.SetReadDeadline); err != nil {
		return 0, err
	}
	defer c.reads.done()
	return c.TCPConn.WriteTo(w) //nolint:wrapcheck // the connection's own
}

// Write implements io.Writer.
func (c *deadlineConn) Write(p []byte) (int, error) {
	if err := c.writes.wait(c.TCPConn.SetWriteDeadline); err != nil {
		return 0, err
	}
	defer c.writes.done()
	return c.TCPConn.Write(p) //nolint:wrapcheck // the connection's own
}

// ReadFrom implements io.ReaderFrom.
func (c *deadlineConn) ReadFrom(r io.Reader) (int64, error) {
	if err := c.writes.wait(c.TCPConn.SetWriteDeadline); err != nil {
		return 0, err
	}
	defer c.writes.done()
	return c.TCPConn.ReadFrom(r) //nolint:wrapcheck // the connection's own
}

// SetReadDeadline implements net.Conn.
func (c *deadlineConn) SetReadDeadline(t time.Time) error {
	return c.reads.ask(t, c.TCPConn.SetReadDeadline)
}

// SetWriteDeadline implements net.Conn.
func (c *deadlineConn) SetWriteDeadline(t time.Time) error {
	return c.writes.ask(t, c.TCPConn.SetWriteDeadline)
}

// SetDeadline implements net.Conn.
func (c *deadlineConn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// deadline is one direction of a connection.
type deadline struct {
	mu      sync.Mutex
	waiting int       // calls under way
	asked   time.Time // what was asked for last
	set     time.Time // what the connection was told last
}

// ask asks for a deadline. Calls under way are held to it at once.
func (d *deadline) ask(t time.Time, set func(time.Time) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = t
	if d.waiting == 0 {
		return nil
	}
	return d.apply(set)
}

// wait is called before a call that may wait, and done after it.
func (d *deadline) wait(set func(time.Time) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.apply(set); err != nil {
		return err
	}
	d.waiting++
	return nil
}

func (d *deadline) done() {
	d.mu.Lock()
	d.waiting--
	d.mu.Unlock()
}

func (d *deadline) apply(set func(time.Time) error) error {
	if d.set.IsZero() == d.asked.IsZero() {
		if later := d.asked.Sub(d.set); later >= 0 && later < deadlineSlack {
			return nil
		}
	}
	if err := set(d.asked); err != nil {
		return err
	}
	d.set = d.asked
	return nil
}
