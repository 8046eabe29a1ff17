// Command wavehouse is the server, its development mode and its tools.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // zones of columns, where the system has none

	"github.com/wavehouse/wavehouse/internal/telemetry"
)

// Set by the linker.
var (
	version   string
	gitCommit string
	buildTime string
)

// Exit codes.
const (
	exitFailure = 1
	exitUsage   = 2
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() {
		cancel(fmt.Errorf("signal: %s", <-signals))
		// Somebody who asks twice does not want to wait for the stop.
		second := <-signals
		fmt.Fprintf(os.Stderr, "wavehouse: %s again: leaving at once; what was accepted is in the queue\n", second)
		os.Exit(exitFailure)
	}()

	terminal := newTerminal(os.Stdin, os.Stdout, os.Stderr, os.Environ())
	root := newRoot(terminal, telemetry.BuildInfo(version, gitCommit, buildTime))
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var usage *usageError
	var silent *silentError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &silent):
		return exitFailure
	case errors.As(err, &usage):
		fmt.Fprintf(os.Stderr, "wavehouse: %v\nRun 'wavehouse --help' for usage.\n", err)
		return exitUsage
	}
	fmt.Fprintf(os.Stderr, "wavehouse: %v\n", err)
	return exitFailure
}
