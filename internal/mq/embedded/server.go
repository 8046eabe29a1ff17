package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
)

const (
	// serverStart covers reading a large store again after a crash.
	serverStart = 10 * time.Minute
	// maxPayload leaves room for a dead letter that holds a whole message.
	maxPayload = 4 << 20
	maxPending = 256 << 20
	memStore   = 64 << 20
)

// host is the server in this process and the two connections to it: one for
// publishing, so that no read of old data ever stands before a publish, and
// one for everything else. Connections outlive a restart of the server.
type host struct {
	dir    string
	log    *slog.Logger
	server atomic.Pointer[server.Server]
	// stopped keeps connections from going back to a server that stops.
	stopped atomic.Bool
	pub     *nats.Conn
	api     *nats.Conn
	js      natsjs.JetStream
	// inspector looks at the store before each start.
	inspector *inspector
	// writeFailed hears that a write failed; it must not block.
	writeFailed func(string)
}

// startHost starts the server and connects. lost is called when the
// publishing connection broke, as answers under way on it are then gone, and
// writeFailed when the server could not write.
func startHost(o Options, lost func(), writeFailed func(string)) (*host, error) {
	h := &host{dir: o.Dir, log: o.Logger, writeFailed: writeFailed, inspector: newInspector(o)}
	if err := h.startServer(); err != nil {
		return nil, err
	}
	if err := h.connect(lost); err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

func (h *host) startServer() error {
	if err := h.inspector.run(); err != nil {
		return err
	}
	srv, err := server.NewServer(serverOptions(h.dir))
	if err != nil {
		return fmt.Errorf("build queue server: %w", err)
	}
	srv.SetLoggerV2(&serverLog{log: h.log, writeFailed: h.writeFailed}, false, false, false)
	go srv.Start()
	if !srv.ReadyForConnections(serverStart) || !srv.JetStreamEnabled() {
		srv.Shutdown()
		srv.WaitForShutdown()
		return fmt.Errorf("queue server on %s did not start", h.dir)
	}
	h.server.Store(srv)
	h.stopped.Store(false)
	return nil
}

// InProcessConn connects to the server there is now.
func (h *host) InProcessConn() (net.Conn, error) {
	if h.stopped.Load() {
		return nil, errors.New("the queue server is stopped")
	}
	return h.server.Load().InProcessConn()
}

func serverOptions(dir string) *server.Options {
	return &server.Options{
		ServerName:         "wavehouse",
		DontListen:         true,
		NoSigs:             true,
		NoSystemAccount:    true,
		MaxPayload:         maxPayload,
		MaxPending:         maxPending,
		MaxControlLine:     32 << 10,
		WriteDeadline:      time.Minute,
		JetStream:          true,
		StoreDir:           dir,
		SyncAlways:         true,
		JetStreamMaxMemory: memStore,
		// Out of reach: budgets are caps, not reservations, and the free
		// space of the volume is watched instead. At the top it overflows.
		JetStreamMaxStore: math.MaxInt64 / 2,
	}
}

func (h *host) connect(lost func()) (err error) {
	if h.pub, err = h.dial("publish", lost); err != nil {
		return err
	}
	if h.api, err = h.dial("api", func() {}); err != nil {
		return err
	}
	h.js, err = natsjs.New(h.api, natsjs.WithDefaultTimeout(jetstream.APITimeout))
	return err
}

func (h *host) dial(name string, lost func()) (*nats.Conn, error) {
	nc, err := nats.Connect("", nats.InProcessServer(h), nats.Name(name),
		nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond),
		// A publish without a connection fails at once instead of waiting in
		// a buffer where its outcome would be unknown.
		nats.ReconnectBufSize(-1),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			h.log.Debug("queue connection", "name", name, "error", err)
		}),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { lost() }))
	if err != nil {
		return nil, fmt.Errorf("connect to queue server: %w", err)
	}
	return nc, nil
}

// restart replaces the server, which opens all streams from disk: a stream
// that met a write error refuses everything until then. (The server can also
// reopen JetStream alone, but then leaves goroutines of the former behind.)
func (h *host) restart() error {
	pub, api := h.pub.Stats().Reconnects, h.api.Stats().Reconnects
	h.stopServer()
	if err := h.startServer(); err != nil {
		return err
	}
	// A connection may not have noticed yet that it is broken.
	for end := time.Now().Add(jetstream.APITimeout); h.pub.Stats().Reconnects == pub || h.api.Stats().Reconnects == api || h.ready() != nil; {
		if time.Now().After(end) {
			return errors.New("reconnect to queue server: no connection in time")
		}
		time.Sleep(5 * time.Millisecond)
	}
	return nil
}

// stopServer stops the server. One that is closing its store by itself is
// left to finish, as it would not be waited for otherwise.
func (h *host) stopServer() {
	h.stopped.Store(true)
	srv := h.server.Load()
	for end := time.Now().Add(jetstream.APITimeout); h.storeClosed() && srv.JetStreamConfig() != nil && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	srv.Shutdown()
	srv.WaitForShutdown()
}

// storeClosed reports whether the server closed its store by itself.
func (h *host) storeClosed() bool { return !h.server.Load().JetStreamEnabled() }

// ready is nil when the server can be asked.
func (h *host) ready() error {
	switch {
	case h.storeClosed():
		return errors.New("the store is closed")
	case !h.pub.IsConnected() || !h.api.IsConnected():
		return errors.New("not connected")
	}
	return nil
}

func (h *host) close() {
	for _, nc := range []*nats.Conn{h.pub, h.api} {
		if nc != nil {
			nc.Close()
		}
	}
	h.stopServer()
}

// streamDir is where the server keeps a stream.
func (h *host) streamDir(name string) string {
	return filepath.Join(h.streamsDir(), name)
}

func (h *host) streamsDir() string { return streamsDir(h.dir) }

func streamsDir(dir string) string { return filepath.Join(dir, "jetstream", "$G", "streams") }

// serverLog passes the server's own log on; what it calls a notice is detail
// to the reader of ours.
type serverLog struct {
	log         *slog.Logger
	writeFailed func(string)
}

// write passes a line on. That a write failed is told by such a line alone.
func (s *serverLog) write(f func(string, ...any), format string, v []any) {
	text := fmt.Sprintf(format, v...)
	if writeFailure(text) {
		s.writeFailed(text)
	}
	f("queue server: " + text)
}

func (s *serverLog) Noticef(format string, v ...any) { s.write(s.log.Debug, format, v) }
func (s *serverLog) Warnf(format string, v ...any)   { s.write(s.log.Warn, format, v) }
func (s *serverLog) Errorf(format string, v ...any)  { s.write(s.log.Error, format, v) }
func (s *serverLog) Fatalf(format string, v ...any)  { s.write(s.log.Error, format, v) }
func (s *serverLog) Debugf(string, ...any)           {}
func (s *serverLog) Tracef(string, ...any)           {}
