// Command coverage reads Go cover profiles, prints the coverage of every
// package and of the whole, and fails when one is below its floor. A statement
// counts as covered when any of the profiles covers it.
//
//	go run ./scripts/coverage [-config .testcoverage.yml] coverage.out...
//
// It exits with 0 when every floor is kept, 1 when one is not, and 2 when it
// cannot tell.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

// errBelowFloor says that the report was printed and something is too low.
var errBelowFloor = errors.New("coverage is below its floor")

func main() {
	os.Exit(exitCode(run(os.Args[1:], os.Stdout), os.Stderr))
}

func exitCode(err error, stderr io.Writer) int {
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errBelowFloor):
		_, _ = fmt.Fprintln(stderr, err)
		return 1
	default:
		_, _ = fmt.Fprintln(stderr, "coverage:", err)
		return 2
	}
}

func run(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("coverage", flag.ContinueOnError)
	flags.SetOutput(stdout)
	config := flags.String("config", ".testcoverage.yml", "the file with the floors")
	if err := flags.Parse(args); err != nil {
		return err
	}
	floors, err := readFloors(*config)
	if err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("name at least one cover profile")
	}
	seen := profile{}
	for _, name := range flags.Args() {
		if err := seen.addFile(name, floors.excluded); err != nil {
			return err
		}
	}
	return report(stdout, seen.packages(), floors)
}
