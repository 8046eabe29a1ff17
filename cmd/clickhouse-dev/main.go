// Command clickhouse-dev runs a real ClickHouse server from libchdb.so, for
// `wavehouse dev` and the tests. It speaks HTTP, and the native protocol when
// that is asked for, on loopback.
//
// It prints one line of JSON once it answers, serves until SIGTERM, SIGINT or,
// with --die-with-parent, the end of its standard input, and then exits 0. What
// it stores stays in --path.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
)

func main() {
	// The engine runs on the main thread: it has the process's full stack.
	runtime.LockOSThread()
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program; it returns the exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return fail(stderr, 2, err)
	}
	if err := o.prepare(); err != nil {
		return fail(stderr, 1, err)
	}
	defer o.cleanup()
	stop := newStopper(o)
	if o.dieWithParent {
		go stop.onEOF(stdin)
	}
	stop.onSignal()
	engine, err := openEngine(o.lib)
	if err != nil {
		return fail(stderr, 1, err)
	}
	go o.http.serve()
	if o.tcp != nil {
		go o.tcp.serve()
	}
	go announce(o, stop, stdout, stderr)

	if err = engine.serve(o.arguments); err == nil {
		err = errors.New("the engine ended by itself")
	}
	return fail(stderr, 1, err)
}

func fail(stderr io.Writer, code int, err error) int {
	_, _ = fmt.Fprintf(stderr, "clickhouse-dev: %v\n", err)
	return code
}

// announce waits until the server answers and prints its one line.
func announce(o *options, stop *stopper, stdout, stderr io.Writer) {
	version, err := waitReady(o, stop.done())
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "clickhouse-dev: %v\n", err)
		return
	}
	line := map[string]any{"http_port": o.http.port(), "pid": os.Getpid(), "version": version}
	if o.tcp != nil {
		line["tcp_port"] = o.tcp.port()
	}
	_ = json.NewEncoder(stdout).Encode(line)
}
