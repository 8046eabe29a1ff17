package bench

import (
	"bytes"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sentMark stands before the time at which a row was sent, in nanoseconds.
const sentMark = `"session_id":"t`

// sampleEvery is which part of the readers looks at each row's time; the
// others only count.
const sampleEvery = 10

// audience is readers of one stream URL. They speak HTTP/1.0, whose answers
// carry nothing but the events, and count lines: three to a row.
type audience struct {
	lines atomic.Int64
	conns []net.Conn
	wait  sync.WaitGroup

	mu   sync.Mutex
	took []time.Duration
}

// newAudience opens size readers; header returns what reader i sends beside
// its request line, in whole lines.
func newAudience(t testing.TB, target string, size int, header func(i int) string) *audience {
	t.Helper()
	u, err := url.Parse(target)
	require.NoError(t, err)
	a := &audience{}
	opened := make(chan error, size)
	for i := range size {
		conn, err := net.Dial("tcp", u.Host)
		require.NoError(t, err)
		a.conns = append(a.conns, conn)
		extra := ""
		if header != nil {
			extra = header(i)
		}
		_, err = fmt.Fprintf(conn, "GET %s HTTP/1.0\r\nHost: %s\r\n%s\r\n", u.RequestURI(), u.Host, extra)
		require.NoError(t, err)
		a.wait.Add(1)
		go a.read(conn, i%sampleEvery == 0, opened)
	}
	for range size {
		require.NoError(t, <-opened)
	}
	return a
}

// read counts until the connection ends.
func (a *audience) read(conn net.Conn, sample bool, opened chan<- error) {
	defer a.wait.Done()
	buf := make([]byte, 16<<10)
	if err := readOpening(conn, buf); err != nil {
		opened <- err
		return
	}
	opened <- nil
	for {
		n, err := conn.Read(buf)
		if n > 0 {
			a.lines.Add(int64(bytes.Count(buf[:n], []byte{'\n'})))
			if sample {
				a.sample(buf[:n], time.Now().UnixNano())
			}
		}
		if err != nil {
			return
		}
	}
}

// readOpening reads the headers and the first block of the stream.
func readOpening(conn net.Conn, buf []byte) error {
	n := 0
	for {
		m, err := conn.Read(buf[n:])
		if err != nil {
			return fmt.Errorf("read the opening after %q: %w", buf[:n], err)
		}
		n += m
		head, rest, ok := bytes.Cut(buf[:n], []byte("\r\n\r\n"))
		if ok && !bytes.Contains(head, []byte(" 200 ")) {
			return fmt.Errorf("refused: %s", buf[:n])
		}
		if ok && bytes.HasSuffix(rest, []byte("\n\n")) {
			return nil
		}
	}
}

// sample notes how old the rows in b are. A time that is cut off counts for
// nothing.
func (a *audience) sample(b []byte, now int64) {
	const digits = 19
	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		at := bytes.Index(b, []byte(sentMark))
		if at < 0 || len(b) < at+len(sentMark)+digits {
			return
		}
		b = b[at+len(sentMark):]
		if sent, err := strconv.ParseInt(string(b[:digits]), 10, 64); err == nil {
			a.took = append(a.took, time.Duration(now-sent))
		}
		b = b[digits:]
	}
}

// rows is how many rows arrived at all readers together.
func (a *audience) rows() int64 { return a.lines.Load() / 3 }

// taken empties the sample.
func (a *audience) taken() []time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	took := a.took
	a.took = nil
	return took
}

func (a *audience) close() {
	for _, conn := range a.conns {
		_ = conn.Close()
	}
	a.wait.Wait()
}
