package main

import (
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/telemetry"
)

// fullVolume takes nothing.
type fullVolume struct{}

var errFull = errors.New("no space left on device")

func (fullVolume) Write([]byte) (int, error) { return 0, errFull }

func TestOutputThatCannotBeWrittenFailsTheCommand(t *testing.T) {
	dir := settingsOf(t, nil)
	for _, args := range [][]string{
		{"version"}, {"version", "--format", "json"}, {"config", "--reference"},
		{"validate", "--show", dir}, {"policy", "explain", "--dir", dir, "--role", "viewer", "--table", "events"},
	} {
		root := newRoot(&terminal{out: fullVolume{}, err: io.Discard}, telemetry.BuildInfo("", "", ""))
		root.SetArgs(args)
		require.ErrorIs(t, root.ExecuteContext(t.Context()), errFull, "%v", args)
	}
}
