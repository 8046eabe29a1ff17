package bench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"
)

// rawRequest renders a request once; headers are pairs.
func rawRequest(target, body string, headers ...string) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "POST %s HTTP/1.1\r\nHost: bench\r\nContent-Length: %d\r\n", target, len(body))
	for i := 0; i+1 < len(headers); i += 2 {
		fmt.Fprintf(&out, "%s: %s\r\n", headers[i], headers[i+1])
	}
	out.WriteString("\r\n")
	out.WriteString(body)
	return out.Bytes()
}

// rawConn is one kept connection. It sends what was rendered before and skips
// most of what comes back, so that the load costs less than what it measures.
type rawConn struct {
	conn net.Conn
	in   *bufio.Reader
}

func dialRaw(addr string) (*rawConn, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &rawConn{conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}, nil
}

// rawAnswer is what the load looks at.
type rawAnswer struct {
	status int
	hit    bool
	bytes  int64
}

var (
	lengthHeader  = []byte("content-length:")
	chunkedHeader = []byte("transfer-encoding: chunked")
	cacheHeader   = []byte("x-cache: hit")
)

// do sends a request and reads its answer whole.
func (c *rawConn) do(request []byte) (rawAnswer, error) {
	if _, err := c.conn.Write(request); err != nil {
		return rawAnswer{}, err
	}
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return rawAnswer{}, err
	}
	var a rawAnswer
	if len(line) < 12 {
		return a, fmt.Errorf("status line %q", line)
	}
	if a.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return a, fmt.Errorf("status line %q", line)
	}
	length, chunked, err := c.headers(&a)
	switch {
	case err != nil:
		return a, err
	case chunked:
		a.bytes, err = c.skipChunks()
	case length < 0:
		return a, errors.New("an answer without a length")
	default:
		a.bytes = int64(length)
		_, err = c.in.Discard(length)
	}
	return a, err
}

func (c *rawConn) headers(a *rawAnswer) (length int, chunked bool, err error) {
	length = -1
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return 0, false, err
		}
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case len(line) == 0:
			return length, chunked, nil
		case hasPrefixFold(line, lengthHeader):
			length, err = strconv.Atoi(string(bytes.TrimSpace(line[len(lengthHeader):])))
			if err != nil {
				return 0, false, err
			}
		case hasPrefixFold(line, chunkedHeader):
			chunked = true
		case hasPrefixFold(line, cacheHeader):
			a.hit = true
		}
	}
}

func hasPrefixFold(line, lower []byte) bool {
	return len(line) >= len(lower) && bytes.EqualFold(line[:len(lower)], lower)
}

func (c *rawConn) skipChunks() (total int64, err error) {
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return total, err
		}
		size, err := strconv.ParseInt(string(bytes.TrimRight(line, "\r\n")), 16, 64)
		if err != nil {
			return total, fmt.Errorf("chunk size %q", line)
		}
		if _, err := c.in.Discard(int(size) + 2); err != nil {
			return total, err
		}
		if size == 0 {
			return total, nil
		}
		total += size
	}
}

// burst is what a round of raw requests came to.
type burst struct {
	requests, hits int
	took           []time.Duration
	elapsed        time.Duration
}

func (b burst) perSecond() float64 { return float64(b.requests) / b.elapsed.Seconds() }

// hammer sends requests from all clients for a time, one each pace, or as fast
// as they are answered when it is zero. next gives client c its
// i-th request; what it returns may be reused by its next call for c.
func hammer(t testing.TB, addr string, clients int, during, pace time.Duration, next func(c, i int) []byte) burst {
	t.Helper()
	var mu sync.Mutex
	var all burst
	var wait sync.WaitGroup
	start := time.Now()
	deadline := start.Add(during)
	for c := range clients {
		wait.Go(func() {
			mine, err := hammerOne(addr, deadline, pace, func(i int) []byte { return next(c, i) })
			if err != nil {
				t.Errorf("client %d of %s: %v", c, addr, err)
			}
			mu.Lock()
			defer mu.Unlock()
			all.requests += mine.requests
			all.hits += mine.hits
			all.took = append(all.took, mine.took...)
		})
	}
	wait.Wait()
	all.elapsed = time.Since(start)
	return all
}

func hammerOne(addr string, deadline time.Time, pace time.Duration, next func(i int) []byte) (burst, error) {
	var mine burst
	conn, err := dialRaw(addr)
	if err != nil {
		return mine, err
	}
	defer func() { _ = conn.conn.Close() }()
	for now := time.Now(); now.Before(deadline); {
		if pace > 0 {
			// Slots are random, so that the clients do not move in step.
			time.Sleep(rand.N(2 * pace))
			now = time.Now()
		}
		answer, err := conn.do(next(mine.requests))
		if err != nil {
			return mine, err
		}
		if answer.status != 200 {
			return mine, fmt.Errorf("answered with status %d", answer.status)
		}
		mine.requests++
		if answer.hit {
			mine.hits++
		}
		end := time.Now()
		mine.took = append(mine.took, end.Sub(now))
		now = end
	}
	return mine, nil
}
