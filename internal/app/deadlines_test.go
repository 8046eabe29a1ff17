package app

import (
	"bytes"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// servedConn is both ends of a connection, the first as the server has it.
func servedConn(t *testing.T) (served net.Conn, client *net.TCPConn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	dialled, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	served, err = unparsedListener{listener}.Accept()
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = served.Close()
		_ = dialled.Close()
	})
	return served, dialled.(*net.TCPConn)
}

// soon is a deadline that a test waits for.
func soon() time.Time { return time.Now().Add(30 * time.Millisecond) }

var longAgo = time.Unix(1, 0)

func TestAReadEndsAtTheDeadlineThatWasAskedForBeforeIt(t *testing.T) {
	served, _ := servedConn(t)
	require.NoError(t, served.SetReadDeadline(soon()))
	_, err := served.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	_, err = io.Copy(io.Discard, served)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "it holds for the reads after it too")
}

func TestAReadThatWaitsEndsAtADeadlineThatIsAskedForMeanwhile(t *testing.T) {
	served, client := servedConn(t)
	ended := make(chan error, 1)
	first := make([]byte, 1)
	go func() {
		_, err := io.ReadFull(served, first)
		if err == nil {
			_, err = served.Read(make([]byte, 1))
		}
		ended <- err
	}()
	_, err := client.Write([]byte("a"))
	require.NoError(t, err)
	select {
	case err := <-ended:
		t.Fatal("a read without a deadline ended", err)
	case <-time.After(30 * time.Millisecond):
	}
	require.NoError(t, served.SetReadDeadline(longAgo))
	require.ErrorIs(t, <-ended, os.ErrDeadlineExceeded)
	require.Equal(t, "a", string(first))

	require.NoError(t, served.SetReadDeadline(time.Time{}))
	_, err = client.Write([]byte("b"))
	require.NoError(t, err)
	_, err = io.ReadFull(served, first)
	require.NoError(t, err, "a deadline that was lifted")
}

func TestADeadlineThatIsLiftedBeforeTheReadIsNone(t *testing.T) {
	served, client := servedConn(t)
	require.NoError(t, served.SetDeadline(longAgo))
	require.NoError(t, served.SetDeadline(time.Time{}))
	_, err := client.Write([]byte("a"))
	require.NoError(t, err)
	_, err = io.ReadFull(served, make([]byte, 1))
	require.NoError(t, err)
	_, err = served.Write([]byte("a"))
	require.NoError(t, err)
}

func TestAWriteThatNobodyReadsEndsAtItsDeadline(t *testing.T) {
	for name, write := range map[string]func(served net.Conn, p []byte) error{
		"write":     func(served net.Conn, p []byte) error { _, err := served.Write(p); return err },
		"read from": func(served net.Conn, p []byte) error { _, err := io.Copy(served, bytes.NewReader(p)); return err },
	} {
		t.Run(name, func(t *testing.T) {
			served, _ := servedConn(t)
			much := make([]byte, 64<<20)
			require.NoError(t, served.SetWriteDeadline(soon()))
			require.ErrorIs(t, write(served, much), os.ErrDeadlineExceeded)
			require.NoError(t, served.SetWriteDeadline(time.Time{}))
			ended := make(chan error, 1)
			go func() { ended <- write(served, much) }()
			select {
			case err := <-ended:
				t.Fatal("a write without a deadline ended", err)
			case <-time.After(30 * time.Millisecond):
			}
			require.NoError(t, served.SetWriteDeadline(longAgo))
			require.ErrorIs(t, <-ended, os.ErrDeadlineExceeded)
		})
	}
}

// TestTheConnectionIsToldOfWhatItIsToWaitFor counts what the connection is told.
func TestTheConnectionIsToldOfWhatItIsToWaitFor(t *testing.T) {
	var told []time.Time
	set := func(at time.Time) error {
		told = append(told, at)
		return nil
	}
	start := time.Now()
	var d deadline
	call := func() {
		require.NoError(t, d.wait(set))
		d.done()
	}
	ask := func(at time.Time) { require.NoError(t, d.ask(at, set)) }

	call()
	require.Empty(t, told, "there was none, and is none")
	ask(start.Add(10 * time.Second))
	ask(start.Add(20 * time.Second))
	require.Empty(t, told, "nobody waits")
	call()
	ask(start.Add(20*time.Second + deadlineSlack/2))
	call()
	require.Equal(t, []time.Time{start.Add(20 * time.Second)}, told, "a little later is not told")
	ask(start.Add(20*time.Second + deadlineSlack))
	call()
	require.Equal(t, start.Add(20*time.Second+deadlineSlack), told[len(told)-1], "but it does not stay behind")
	ask(start.Add(19 * time.Second))
	call()
	require.Equal(t, start.Add(19*time.Second), told[len(told)-1], "what is sooner is told, however little")
	ask(time.Time{})
	call()
	require.Equal(t, time.Time{}, told[len(told)-1])
	require.Len(t, told, 4)
	require.NoError(t, d.wait(set))
	ask(longAgo)
	require.Equal(t, longAgo, told[len(told)-1], "who waits is held to it at once")
	d.done()
}
