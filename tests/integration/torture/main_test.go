// Package torture breaks the built server from outside, under load, and then
// counts: every answered record is where it belongs, unchanged, and memory
// stayed within its bound.
package torture

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/wavehouse/wavehouse/tests/harness"
)

// binaries are built once for the whole package.
var binaries harness.Binaries

func TestMain(m *testing.M) {
	flag.Duration("torture.for", 30*time.Second, "how long the torture test breaks things")
	flag.Uint64("torture.seed", 1, "seed of the torture test; 0 takes one from the clock, to search on")
	code := m.Run()
	binaries.Remove()
	os.Exit(code)
}

// option is the value of one of the flags above.
func option[T any](name string) T {
	return flag.Lookup(name).Value.(flag.Getter).Get().(T)
}
