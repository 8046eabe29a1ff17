package app

import (
	"context"
	"fmt"
	"net"
	"time"
)

const (
	// peerTimeout is how long a peer may leave sent data unacknowledged before
	// its connection is closed. Without it a client that vanished keeps its
	// stream for the system's retries, about a quarter of an hour. It is longer
	// than a stream's write may take, so that a client that is there but slow
	// is ended by the stream, which can say why.
	peerTimeout = 40 * time.Second
	// A connection that carries nothing is probed.
	probeIdle     = 30 * time.Second
	probeInterval = 10 * time.Second
	probeCount    = 3
)

// listenOn binds an address. Connections whose peer is gone are found and
// closed.
func listenOn(ctx context.Context, addr string) (net.Listener, error) {
	config := net.ListenConfig{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: probeIdle, Interval: probeInterval, Count: probeCount},
		Control:         boundUnacknowledged,
	}
	listener, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w (is another process using the port? set server.port, server.ops_port or prometheus.port)", addr, err)
	}
	return listener, nil
}
