package app

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is set on the listener holds for the connections it accepts.
func TestAcceptedConnectionsBoundUnacknowledgedData(t *testing.T) {
	listener, err := listenOn(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	client, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	defer client.Close()
	conn, err := listener.Accept()
	require.NoError(t, err)
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	var timeout, keepalive int
	require.NoError(t, raw.Control(func(fd uintptr) {
		timeout, _ = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout)
		keepalive, _ = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_KEEPALIVE)
	}))
	require.EqualValues(t, peerTimeout.Milliseconds(), timeout)
	require.NotZero(t, keepalive)
	_, err = listenOn(t.Context(), listener.Addr().String())
	require.ErrorContains(t, err, "is another process using the port?")
}
