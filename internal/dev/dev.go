// Package dev is `wavehouse dev`: a ClickHouse, a settings directory, a demo
// table with real data and the server, on this machine and for loopback only.
package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Options are what the command line says.
type Options struct {
	// Dir holds everything that is kept: ClickHouse's data, the queue, the
	// settings, the log.
	Dir string
	// Port is the server's; it listens on loopback.
	Port int
	// ClickHouse is the host of a server to use; "" starts one.
	ClickHouse string
	// ClickHouseHTTP is that server's HTTP port.
	ClickHouseHTTP int
	// NoDemo leaves the demo table and its data out.
	NoDemo bool
	// DemoData is the demo's rows, one JSON object a line; "" looks for the
	// file that `make deps` fetches.
	DemoData string
	// Out is where progress and the summary go.
	Out io.Writer
	// Interactive says that Out is a terminal: progress then stays on a line.
	Interactive bool
}

// Server runs a WaveHouse server until its context ends. Ready is called once
// it listens.
type Server interface {
	Run(ctx context.Context, o ServerOptions, ready func()) error
}

// ServerOptions is how dev wants its server.
type ServerOptions struct {
	DataDir, SettingsDir, LogFile string
	Host                          string
	Port                          int
	OperatorKey                   string
	TokenSecret                   string // of HMAC tokens, unless the environment names one
}

const (
	loopback = "127.0.0.1"
	// readyTimeout bounds the wait for the tables to be known.
	readyTimeout = 30 * time.Second
)

// Run starts everything, and stops everything when ctx ends. It returns nil
// after a clean stop.
func Run(ctx context.Context, o Options, server Server) error {
	if err := checkPort(o.Port); err != nil {
		return err
	}
	if err := os.MkdirAll(o.Dir, 0o750); err != nil {
		return fmt.Errorf("make --dir: %w", err)
	}
	say := newProgress(o.Out, o.Interactive)
	clickhouse, err := startClickHouse(ctx, o, say)
	if err != nil {
		return err
	}
	defer clickhouse.stop()
	operatorKey, tokenSecret, err := prepare(o, clickhouse)
	if err != nil {
		return err
	}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- server.Run(ctx, ServerOptions{
			DataDir: o.Dir, SettingsDir: settingsDir(o), LogFile: logFile(o),
			Host: loopback, Port: o.Port, OperatorKey: operatorKey, TokenSecret: tokenSecret,
		}, func() { close(ready) })
	}()
	select {
	case <-ready:
	case err := <-ended:
		return err
	}
	failed := present(ctx, o, clickhouse, say)
	select {
	case err := <-ended:
		return err
	case err := <-clickhouse.ended():
		failed = errors.Join(failed, err)
	case <-ctx.Done():
	case <-failure(failed):
	}
	cancel()
	say.line("stopping…")
	return errors.Join(failed, <-ended)
}

// failure is ready to be received from when there is one.
func failure(err error) <-chan struct{} {
	c := make(chan struct{})
	if err != nil {
		close(c)
	}
	return c
}

// present loads the demo and prints the one screen that says what is running.
// A stop in the middle of it is not a failure.
func present(ctx context.Context, o Options, clickhouse *clickhouse, say *progress) error {
	table := ""
	if !o.NoDemo {
		loaded, err := loadDemo(ctx, o, clickhouse, say)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("load the demo data: %w", err)
		}
		table = loaded
	}
	_, err := io.WriteString(o.Out, summary(o, clickhouse, table))
	return err
}

func checkPort(port int) error {
	address := net.JoinHostPort(loopback, strconv.Itoa(port))
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("port %d cannot be used: %w\nStop what uses it, or choose another: --port %d", port, err, port+1)
	}
	return listener.Close()
}

func settingsDir(o Options) string { return filepath.Join(o.Dir, "settings") }
func logFile(o Options) string     { return filepath.Join(o.Dir, "wavehouse.log") }
