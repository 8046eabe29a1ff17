package main

import (
	"io"
	"net"
	"time"
)

// relay stands between clients and a port of the engine, which ends as a whole
// when a client resets its connection at the wrong moment, in the middle of a
// request's head for one. What the engine sees of a client that vanishes is an
// end in order.
type relay struct {
	listener *net.TCPListener
	engine   int // the port behind it
}

// leaveAfter is how long the engine may go on answering a client that is gone.
const leaveAfter = time.Second

// newRelay listens on a port of loopback, for 0 one of the kernel's choice.
func newRelay(port int) (*relay, error) {
	listener, err := net.ListenTCP("tcp", loopback(port))
	if err != nil {
		return nil, err
	}
	// The engine needs a number, and tells nobody which port it bound.
	behind, err := net.ListenTCP("tcp", loopback(0))
	if err != nil {
		return nil, err
	}
	return &relay{listener: listener, engine: portOf(behind)}, behind.Close()
}

func loopback(port int) *net.TCPAddr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port} }

func portOf(l *net.TCPListener) int {
	if addr, ok := l.Addr().(*net.TCPAddr); ok {
		return addr.Port
	}
	return 0
}

// port is where clients connect.
func (r *relay) port() int { return portOf(r.listener) }

// serve passes connections on for as long as the process lives.
func (r *relay) serve() {
	for {
		client, err := r.listener.AcceptTCP()
		if err != nil {
			return
		}
		go r.pass(client)
	}
}

// pass connects a client to the engine until one of them ends.
func (r *relay) pass(client *net.TCPConn) {
	defer func() { _ = client.Close() }()
	engine, err := net.DialTCP("tcp", nil, loopback(r.engine))
	if err != nil {
		return
	}
	defer func() { _ = engine.Close() }()
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		_, _ = io.Copy(engine, client) // a reset ends it, too
		_ = engine.CloseWrite()
	}()
	_, err = io.Copy(client, engine)
	_ = client.Close()
	<-asked
	if err != nil { // the client is gone
		_ = engine.SetReadDeadline(time.Now().Add(leaveAfter))
		_, _ = io.Copy(io.Discard, engine)
	}
}
