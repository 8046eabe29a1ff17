package clickhousetest

import (
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/wavehouse/wavehouse/internal/processtest"
)

// TCPProxy is a port in front of another one, for faults below HTTP.
type TCPProxy struct {
	target string
	addr   string

	mu       sync.Mutex
	listener net.Listener // nil while connections are refused
	hang     bool
	passing  sync.Cond // of mu: hang or closed changed
	conns    map[net.Conn]struct{}
	stuck    map[net.Conn]struct{} // those of conns that lead nowhere
	accepted int
	closed   bool
	wg       sync.WaitGroup
}

// NewTCPProxy starts a proxy to target, host:port. It ends with the test.
func NewTCPProxy(t testing.TB, target string) *TCPProxy {
	t.Helper()
	p := &TCPProxy{target: target, conns: map[net.Conn]struct{}{}, stuck: map[net.Conn]struct{}{}}
	p.passing.L = &p.mu
	port, err := processtest.FreePort() // so that it can be closed and opened again
	if err != nil {
		t.Fatalf("start the proxy: %v", err)
	}
	p.addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		t.Fatalf("start the proxy: %v", err)
	}
	p.serve(l)
	t.Cleanup(p.close)
	return p
}

// Addr is where the proxy listens, host:port.
func (p *TCPProxy) Addr() string { return p.addr }

// Port is Addr's port.
func (p *TCPProxy) Port() int { return portOf(p.addr) }

// Accepted is how many connections were made.
func (p *TCPProxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Refuse closes the port: connections are refused, those that exist are reset.
func (p *TCPProxy) Refuse() {
	p.mu.Lock()
	l := p.listener
	p.listener = nil
	p.mu.Unlock()
	if l != nil {
		_ = l.Close()
	}
	p.Cut()
}

// Hang accepts connections from now on and answers nothing. On those that
// exist nothing moves any more.
func (p *TCPProxy) Hang() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hang = true
}

// Pass forwards from now on, after Refuse and Hang too. What was accepted
// meanwhile is reset.
func (p *TCPProxy) Pass(t testing.TB) {
	t.Helper()
	p.mu.Lock()
	p.hang = false
	p.passing.Broadcast()
	for c := range p.stuck {
		reset(c)
	}
	listening := p.listener != nil
	p.mu.Unlock()
	if listening {
		return
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		l, err := net.Listen("tcp", p.addr)
		if err == nil {
			p.serve(l)
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("open the proxy's port again: %v", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Cut resets every connection there is.
func (p *TCPProxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		reset(c)
	}
}

func (p *TCPProxy) close() {
	p.mu.Lock()
	p.closed = true
	p.passing.Broadcast()
	p.mu.Unlock()
	p.Refuse()
	p.wg.Wait()
}

func (p *TCPProxy) serve(l net.Listener) {
	p.mu.Lock()
	p.listener = l
	p.mu.Unlock()
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			p.accepted++
			p.mu.Unlock()
			p.wg.Go(func() { p.handle(c) })
		}
	})
}

func (p *TCPProxy) handle(c net.Conn) {
	defer p.forget(c)
	hang, ok := p.track(c)
	if !ok {
		reset(c)
		return
	}
	if hang {
		_, _ = io.Copy(io.Discard, c)
		return
	}
	up, err := net.Dial("tcp", p.target)
	if err != nil {
		reset(c)
		return
	}
	defer p.forget(up)
	if _, ok := p.track(up); !ok {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(up, passing{c, p})
		_ = up.Close()
	}()
	if _, err := io.Copy(c, passing{up, p}); err != nil {
		reset(c)
	}
	_ = c.Close()
	<-done
}

// passing is what a connection reads, held back while the proxy hangs.
type passing struct {
	io.Reader
	p *TCPProxy
}

func (r passing) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	for r.p.hang && !r.p.closed {
		r.p.passing.Wait()
	}
	return n, err
}

func (p *TCPProxy) track(c net.Conn) (hang, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.listener == nil {
		return false, false // accepted a moment before the port was closed
	}
	p.conns[c] = struct{}{}
	if p.hang {
		p.stuck[c] = struct{}{}
	}
	return p.hang, true
}

func (p *TCPProxy) forget(c net.Conn) {
	_ = c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	delete(p.stuck, c)
}

// reset closes c so that its peer sees a reset, not an end.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

func portOf(addr string) int {
	a, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return 0
	}
	return a.Port
}
