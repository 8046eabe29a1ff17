package api

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bodyRig is a server whose bodies have little memory.
func bodyRig(t *testing.T, memory int64) (*Server, string) {
	t.Helper()
	rig := newRig(t, writerPolicy)
	rig.options.MaxBodyMemory = memory
	s := NewServer(rig.options)
	server := httptest.NewUnstartedServer(s)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.CloseClientConnections)
	t.Cleanup(server.Close)
	return s, server.URL
}

// begin opens a connection that sends a request's head and the start of its body.
func begin(t *testing.T, url, headers, body string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	beginOn(t, conn, headers, body)
	return conn
}

func beginOn(t *testing.T, conn net.Conn, headers, body string) {
	t.Helper()
	t.Cleanup(func() { _ = conn.Close() })
	_, err := fmt.Fprintf(conn, "POST /v1/ingest?table=pages HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%s\r\n%s", headers, body)
	require.NoError(t, err)
}

// memoryListener is a listener in memory, whose connections know no time but a bubble's.
type memoryListener chan net.Conn

func (l memoryListener) Accept() (net.Conn, error) {
	conn, ok := <-l
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (l memoryListener) Close() error   { close(l); return nil }
func (l memoryListener) Addr() net.Addr { return &net.TCPAddr{} }

func (l memoryListener) dial() net.Conn {
	here, there := net.Pipe()
	l <- there
	return here
}

// large is a body of one record of n bytes.
func large(id string, n int) string {
	return `[{"event_id":"` + id + `","page":"/1"}` + strings.Repeat(" ", n) + "]"
}

// A body takes what has arrived of it, and not what its length is said to be.
func TestMemoryOfBodiesFollowsWhatHasArrived(t *testing.T) {
	s, url := bodyRig(t, 8<<20)
	for range 64 {
		begin(t, url, "Content-Length: 16777216\r\n", "[")
		begin(t, url, "Transfer-Encoding: chunked\r\n", "1\r\n[\r\n")
	}
	require.Eventually(t, func() bool { return usedBy(s.bodies) == 128*bodyStart }, time.Minute, time.Millisecond)
	a := send(t, "POST", url+"/v1/ingest?table=pages", large("1", 2<<20), "Content-Type", "application/json")
	require.Equal(t, 200, a.status, a.body)
}

// So it is with the streams of an HTTP/2 connection.
func TestMemoryOfStreamsFollowsWhatHasArrived(t *testing.T) {
	s, url := bodyRig(t, 8<<20)
	client := &http.Client{Transport: &http.Transport{Protocols: unencryptedHTTP2()}}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 100 {
		in, out := io.Pipe()
		request, err := http.NewRequestWithContext(ctx, "POST", url+"/v1/ingest?table=pages", in)
		require.NoError(t, err)
		request.ContentLength = 16 << 20
		request.Header.Set("Content-Type", "application/json")
		all.Go(func() {
			if response, err := client.Do(request); err == nil {
				_ = response.Body.Close()
			}
		})
		all.Go(func() { _, _ = out.Write([]byte("[")) })
	}
	require.Eventually(t, func() bool { return usedBy(s.bodies) == 100*bodyStart }, time.Minute, time.Millisecond)
	a := send(t, "POST", url+"/v1/ingest?table=pages", large("1", 2<<20), "Content-Type", "application/json")
	require.Equal(t, 200, a.status, a.body)
	cancel()
	all.Wait()
	require.Eventually(t, func() bool { return usedBy(s.bodies) == 0 }, time.Minute, time.Millisecond)
}

func unencryptedHTTP2() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return p
}

// Large bodies that are on their way leave room for small ones, and one more of
// them is told so.
func TestLargeBodiesLeaveRoomForSmallOnes(t *testing.T) {
	s, url := bodyRig(t, 8<<20)
	for range 8 {
		begin(t, url, "Content-Length: 16777216\r\n", large("1", 900<<10))
	}
	require.Eventually(t, func() bool { return s.bodies.large.Used() >= 3<<20 }, time.Minute, time.Millisecond)
	a := send(t, "POST", url+"/v1/ingest?table=pages", large("1", 4<<20), "Content-Type", "application/json")
	require.Equal(t, 503, a.status, a.body)
	require.Equal(t, "bodies.busy", a.json(t)["code"])
	require.Equal(t, true, a.json(t)["retryable"])
	require.NotEmpty(t, a.header.Get("Retry-After"))
	a = send(t, "POST", url+"/v1/ingest?table=pages", large("1", 40<<10), "Content-Type", "application/json")
	require.Equal(t, 200, a.status, a.body)
}

// A body of which too little comes is cut off.
func TestSlowBodiesAreCutOff(t *testing.T) { synctest.Test(t, slowBodiesAreCutOff) }

func slowBodiesAreCutOff(t *testing.T) {
	rig := newRig(t, writerPolicy)
	rig.options.MaxBodyMemory = 8 << 20
	s := NewServer(rig.options)
	clients, server, served := make(memoryListener), &http.Server{Handler: s}, make(chan error, 1)
	go func() { served <- server.Serve(clients) }()
	stuck, trickle, steady := clients.dial(), clients.dial(), clients.dial()
	beginOn(t, stuck, "Content-Length: 16777216\r\n", large("1", 900<<10))
	beginOn(t, trickle, "Content-Length: 10000\r\n", "[")
	beginOn(t, steady, "Content-Length: 100000\r\n", "[")
	began := time.Now()
	var all sync.WaitGroup
	feed := func(conn net.Conn, text string, every time.Duration) {
		for {
			time.Sleep(every)
			if _, err := conn.Write([]byte(text)); err != nil {
				return
			}
		}
	}
	all.Go(func() { feed(trickle, " ", bodyStall/20) })
	all.Go(func() { feed(steady, strings.Repeat(" ", 4<<10), bodyStall/10) })
	for _, conn := range []net.Conn{stuck, trickle} {
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.Equal(t, 400, answer.StatusCode)
		_ = answer.Body.Close()
		require.Equal(t, bodyStall, time.Since(began))
	}
	answer, err := http.ReadResponse(bufio.NewReader(steady), nil)
	require.NoError(t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), "body.malformed", "it came whole: an array that is not closed")
	require.Greater(t, time.Since(began), 2*bodyStall)
	require.NoError(t, server.Close())
	require.ErrorIs(t, <-served, http.ErrServerClosed)
	all.Wait()
	synctest.Wait()
	require.Zero(t, usedBy(s.bodies))
}

// The windows of decoders are taken before there are decoders.
func TestWindowsOfZstdAreTakenFromTheMemory(t *testing.T) {
	s, url := bodyRig(t, 32<<20)
	var bomb bytes.Buffer
	encoder, err := zstd.NewWriter(&bomb, zstd.WithWindowSize(maxZstdWindow))
	require.NoError(t, err)
	_, err = encoder.Write(bytes.Repeat([]byte(" "), 10<<20))
	require.NoError(t, err)
	require.NoError(t, encoder.Close())
	var all sync.WaitGroup
	var mu sync.Mutex
	codes := map[int]int{}
	var conns []net.Conn
	for range 40 {
		conn := begin(t, url, fmt.Sprintf("Content-Encoding: zstd\r\nContent-Length: %d\r\n", bomb.Len()), bomb.String()[:bomb.Len()-5])
		conns = append(conns, conn)
		all.Go(func() {
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				codes[0]++
				return
			}
			defer answer.Body.Close()
			text, _ := io.ReadAll(answer.Body)
			assert.Contains(t, string(text), "bodies.busy")
			codes[answer.StatusCode]++
		})
	}
	require.Eventually(t, func() bool { return s.bodies.large.Used() > maxZstdWindow }, time.Minute, time.Millisecond)
	a := send(t, "POST", url+"/v1/ingest?table=pages", single, "Content-Type", "application/json")
	require.Equal(t, 200, a.status, a.body)
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return codes[503] >= 38
	}, time.Minute, time.Millisecond, "no more than their memory is read at once: %v", codes)
	for _, conn := range conns { // the others wait for the rest of theirs
		_ = conn.Close()
	}
	all.Wait()
	require.Equal(t, 40-codes[0], codes[503])
}

func TestWindowsOfZstdAreBounded(t *testing.T) {
	s, url := bodyRig(t, 64<<20)
	post := func(body []byte) answer {
		return send(t, "POST", url+"/v1/ingest?table=pages", string(body), "Content-Type", "application/json", "Content-Encoding", "zstd")
	}
	packed := func(window int, text string) []byte {
		var out bytes.Buffer
		w, err := zstd.NewWriter(&out, zstd.WithWindowSize(window), zstd.WithSingleSegment(false))
		require.NoError(t, err)
		_, err = io.WriteString(w, text)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		return out.Bytes()
	}
	body := large("1", 9<<20)
	require.Equal(t, 200, post(packed(8<<20, body)).status)
	require.Equal(t, 200, post(packed(64<<10, body)).status)
	require.Equal(t, 200, post(append(packed(1<<10, body[:2000]), packed(128<<10, body[2000:])...)).status, "frames of a usual size may follow")
	a := post(packed(16<<20, body))
	require.Equal(t, 400, a.status, a.body)
	require.Contains(t, a.body, "window")
	require.Equal(t, 400, post([]byte("no zstd at all, but long enough")).status)
	require.Zero(t, usedBy(s.bodies))
}

// What a decoder holds is no more than was taken for it.
func TestDecodersHoldWhatIsTakenForThem(t *testing.T) {
	for _, window := range []int{1 << 10, 128 << 10, 1 << 20, 8 << 20} {
		var packed bytes.Buffer
		w, err := zstd.NewWriter(&packed, zstd.WithWindowSize(window))
		require.NoError(t, err)
		text := strings.Repeat(`{"some":"text that repeats"}`, 1<<19)
		_, err = io.WriteString(w, text)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		m := &bodyMemory{of: newBodyReader(64 << 20), ctx: t.Context()}
		bytesHeld := heldBy(func() any {
			reader, err := decode(&packed, []string{"zstd"}, m)
			require.NoError(t, err)
			_, err = io.CopyN(io.Discard, reader, int64(len(text))-1)
			require.NoError(t, err)
			return reader
		})
		require.LessOrEqual(t, bytesHeld, usedBy(m.of)+128<<10, "window %d", window)
	}
}

// heldBy is how much memory what make returns holds, about.
func heldBy(make func() any) int64 {
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	made := make()
	after := heap()
	runtime.KeepAlive(made)
	return after - before
}

// usedBy is how many bytes of bodies are taken.
func usedBy(b *bodyReader) int64 { return b.small.Used() + b.large.Used() }
