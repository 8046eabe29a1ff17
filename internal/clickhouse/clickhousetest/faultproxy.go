package clickhousetest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Fault is what a FaultProxy does to a request. The zero Fault forwards it.
type Fault struct {
	kind   faultKind
	delay  time.Duration
	status int
	header http.Header
	body   string
	bytes  int64
}

type faultKind uint8

const (
	pass faultKind = iota
	hang
	resetBeforeBody
	resetAfterBody
	loseResponse
	cutResponse
	answer
)

// Pass forwards.
func Pass() Fault { return Fault{} }

// Delay forwards after d.
func Delay(d time.Duration) Fault { return Fault{delay: d} }

// Hang reads the request and never answers.
func Hang() Fault { return Fault{kind: hang} }

// ResetBeforeBody resets the connection when the headers were read: nothing
// reached ClickHouse.
func ResetBeforeBody() Fault { return Fault{kind: resetBeforeBody} }

// ResetAfterBody resets the connection when the whole request was read: nothing
// reached ClickHouse.
func ResetAfterBody() Fault { return Fault{kind: resetAfterBody} }

// LoseResponse forwards, and resets the connection when ClickHouse has
// answered: the statement ran, its outcome is not known.
func LoseResponse() Fault { return Fault{kind: loseResponse} }

// CutResponse forwards, and resets the connection after n bytes of the answer's
// body.
func CutResponse(n int64) Fault { return Fault{kind: cutResponse, bytes: n} }

// Answer answers with status, headers and body, and forwards nothing.
func Answer(status int, header http.Header, body string) Fault {
	return Fault{kind: answer, status: status, header: header, body: body}
}

// Request is a request the proxy saw.
type Request struct {
	Query  url.Values
	Header http.Header
	Body   []byte
}

// FaultProxy is an HTTP port in front of ClickHouse's that breaks statements as
// it is told. The server's own questions (which tables there are, whether
// ClickHouse is there) pass, and are not counted: they come when they like. Its
// port refuses, hangs and is cut like a TCPProxy's, with all that goes over it.
type FaultProxy struct {
	*TCPProxy
	forward *httputil.ReverseProxy

	mu       sync.Mutex
	standing Fault
	next     []Fault
	requests []Request
	held     int
	peak     int
}

// maxRemembered bounds the requests a proxy remembers.
const maxRemembered = 10_000

// NewFaultProxy starts a proxy to target, host:port of an HTTP interface. It
// ends with the test.
func NewFaultProxy(t testing.TB, target string) *FaultProxy {
	t.Helper()
	p := &FaultProxy{forward: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: target}) },
		// The way to ClickHouse itself must not add faults of its own.
		Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		FlushInterval: -1,
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { panic(http.ErrAbortHandler) },
	}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("start the proxy: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	server := &http.Server{Handler: p, BaseContext: func(net.Listener) context.Context { return ctx }}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	p.TCPProxy = NewTCPProxy(t, l.Addr().String())
	t.Cleanup(func() {
		cancel()
		_ = server.Close()
		<-done
	})
	return p
}

// Set makes f what happens to every request from now on.
func (p *FaultProxy) Set(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.standing, p.next = f, nil
}

// Next makes faults happen to the next requests, one each; after them the
// standing one does.
func (p *FaultProxy) Next(faults ...Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = append(p.next, faults...)
}

// Requests are the requests seen so far.
func (p *FaultProxy) Requests() []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Request(nil), p.requests...)
}

// Count is how many requests were seen so far.
func (p *FaultProxy) Count() int { return len(p.Requests()) }

// Held is how many requests a Delay or a Hang keeps waiting, now and at most at
// once. No answer is on its way then, so a client that has had one and goes on is
// not counted twice, however late the proxy ends its part of it.
func (p *FaultProxy) Held() (now, peak int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held, p.peak
}

// ServeHTTP is the proxy itself.
func (p *FaultProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("default_format") == "RowBinary" {
		p.forward.ServeHTTP(w, r)
		return
	}
	f := p.take()
	if f.kind == resetBeforeBody {
		p.remember(r, nil)
		abort(w)
		return
	}
	body, err := io.ReadAll(r.Body)
	p.remember(r, body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if f.delay > 0 && !p.hold(r.Context(), time.After(f.delay)) {
		return
	}
	p.apply(f, w, r)
}

// hold keeps a request waiting until over, and reports whether it is still
// wanted then.
func (p *FaultProxy) hold(ctx context.Context, over <-chan time.Time) bool {
	count := func(by int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.held += by
		p.peak = max(p.peak, p.held)
	}
	count(1)
	defer count(-1)
	select {
	case <-over:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p *FaultProxy) apply(f Fault, w http.ResponseWriter, r *http.Request) {
	switch f.kind {
	case pass:
		p.forward.ServeHTTP(w, r)
	case hang:
		p.hold(r.Context(), nil)
	case resetAfterBody:
		abort(w)
	case loseResponse:
		p.forward.ServeHTTP(&lost{header: http.Header{}}, r)
		abort(w)
	case cutResponse:
		p.forward.ServeHTTP(&cutter{ResponseWriter: w, left: f.bytes}, r)
	case answer:
		for name, values := range f.header {
			w.Header()[name] = values
		}
		w.WriteHeader(f.status)
		_, _ = io.WriteString(w, f.body)
	default:
		panic(fmt.Sprintf("fault %d", f.kind))
	}
}

func (p *FaultProxy) take() Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.next) == 0 {
		return p.standing
	}
	f := p.next[0]
	p.next = p.next[1:]
	return f
}

func (p *FaultProxy) remember(r *http.Request, body []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.requests) < maxRemembered {
		p.requests = append(p.requests, Request{Query: r.URL.Query(), Header: r.Header.Clone(), Body: body})
	}
}
