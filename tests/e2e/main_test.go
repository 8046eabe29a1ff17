// Package e2e runs the built binaries as their users do.
package e2e

import (
	"os"
	"testing"

	"github.com/wavehouse/wavehouse/tests/harness"
)

// binaries are built once for the whole package.
var binaries harness.Binaries

// sdk is built once, too.
var sdk builtSDK

func TestMain(m *testing.M) {
	code := m.Run()
	binaries.Remove()
	sdk.remove()
	os.Exit(code)
}
