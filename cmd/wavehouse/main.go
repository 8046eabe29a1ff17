// Command wavehouse is the server, its development mode and its tools.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
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

// sameKeypress is how soon after the first an interrupt is taken for its echo:
// some wrappers pass a Ctrl-C on to a process that the terminal has sent it to
// already.
const sameKeypress = 200 * time.Millisecond

// nextSignal waits for somebody who asks a second time, and so does not want
// to wait for the stop.
func nextSignal(signals <-chan os.Signal, first time.Time) os.Signal {
	for {
		next := <-signals
		if next != os.Interrupt || time.Since(first) > sameKeypress {
			return next
		}
	}
}

// serves reports whether the command runs a server, which a hangup does not end.
func serves(args []string) bool {
	return slices.Contains(args, "serve") || slices.Contains(args, "dev")
}

func run(args []string) int {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() {
		first := <-signals
		cancel(fmt.Errorf("signal: %s", first))
		second := nextSignal(signals, time.Now())
		fmt.Fprintf(os.Stderr, "wavehouse: %s again: leaving at once; what was accepted is in the queue\n", second)
		os.Exit(exitFailure)
	}()

	terminal := newTerminal(os.Stdin, os.Stdout, os.Stderr, os.Environ())
	terminal.hangups = make(chan os.Signal, 1)
	if serves(args) {
		// From the first moment: one that comes during the start is a reload
		// after it.
		signal.Notify(terminal.hangups, syscall.SIGHUP)
		defer signal.Stop(terminal.hangups)
	}
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
	}
	fmt.Fprintf(os.Stderr, "wavehouse: %v\n", err)
	if errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailure
}
