package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const config = "threshold:\n  package: 70\n  total: 85\nexclude:\n  paths: ['/gen/', '_gen\\.go$']\n"

func check(t *testing.T, config string, profiles ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	args := []string{"-config", write(t, config)}
	for _, p := range profiles {
		args = append(args, write(t, p))
	}
	err := run(args, &out)
	return out.String(), err
}

func write(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
	return name
}

func TestFloors(t *testing.T) {
	tests := []struct {
		name, profile string
		low           bool
		lines         []string
	}{
		{"all kept", "mode: set\nm/a/x.go:1.1,2.2 9 1\nm/a/x.go:3.1,4.2 1 0\n", false,
			[]string{"90.0%  m/a (9 of 10 statements)\n", "90.0%  total (9 of 10 statements)\n"}},
		{"a package too low", "mode: set\nm/a/x.go:1.1,2.2 95 1\nm/b/x.go:1.1,2.2 3 1\nm/b/y.go:1.1,2.2 2 0\n", true,
			[]string{"60.0%  m/b (3 of 5 statements)  below 70%\n", "98.0%  total (98 of 100 statements)\n"}},
		{"the total too low", "mode: set\nm/a/x.go:1.1,2.2 8 1\nm/a/x.go:3.1,4.2 2 0\n", true,
			[]string{"80.0%  m/a (8 of 10 statements)\n", "80.0%  total (8 of 10 statements)  below 85%\n"}},
		{"a package without tests counts", "mode: set\nm/a/x.go:1.1,2.2 99 1\nm/b/x.go:1.1,2.2 1 0\n", true,
			[]string{"0.0%  m/b (0 of 1 statements)  below 70%\n"}},
		{"covered by any test binary", "mode: atomic\nm/a/x.go:1.1,2.2 5 0\nmode: atomic\nm/a/x.go:1.1,2.2 5 7\n", false,
			[]string{"100.0%  m/a (5 of 5 statements)\n"}},
		{"excluded files do not count", "mode: set\nm/a/x.go:1.1,2.2 5 1\nm/gen/x.go:1.1,2.2 5 0\nm/a/t_gen.go:1.1,2.2 5 0\n", false,
			[]string{"100.0%  total (5 of 5 statements)\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, err := check(t, config, tt.profile)
			if tt.low {
				require.ErrorIs(t, err, errBelowFloor)
			} else {
				require.NoError(t, err)
			}
			for _, line := range tt.lines {
				assert.Contains(t, out, line)
			}
		})
	}
}

func TestWorstPackageIsPrintedLast(t *testing.T) {
	out, err := check(t, config, "mode: set\nm/b/x.go:1.1,2.2 1 0\nm/a/x.go:1.1,2.2 99 1\nm/c/x.go:1.1,2.2 99 1\n")
	require.ErrorIs(t, err, errBelowFloor)
	a, b, c := strings.Index(out, "m/a"), strings.Index(out, "m/b"), strings.Index(out, "m/c")
	assert.True(t, a < c && c < b, out)
}

func TestProfilesAddUp(t *testing.T) {
	unit := "mode: set\nm/a/x.go:1.1,2.2 5 1\nm/a/x.go:3.1,4.2 5 0\n"
	integration := "mode: atomic\nm/a/x.go:1.1,2.2 5 0\nm/a/x.go:3.1,4.2 5 9\n"
	_, err := check(t, config, unit)
	require.ErrorIs(t, err, errBelowFloor)
	out, err := check(t, config, unit, integration)
	require.NoError(t, err)
	assert.Contains(t, out, "100.0%  total (10 of 10 statements)")

	_, err = check(t, config)
	require.ErrorContains(t, err, "at least one cover profile")
	_, err = check(t, config, unit, "PASS\n")
	require.ErrorContains(t, err, "not a cover profile")
}

func TestWhatCannotBeRead(t *testing.T) {
	good := "mode: set\nm/a/x.go:1.1,2.2 9 1\n"
	tests := []struct{ name, config, profile, want string }{
		{"empty profile", config, "", "not a cover profile"},
		{"other text", config, "PASS\n", "not a cover profile"},
		{"no package", config, "mode: set\n", "name no package"},
		{"short line", config, "mode: set\nm/a/x.go:1.1,2.2 9\n", "line 2"},
		{"no file", config, "mode: set\nx 9 1\n", "no file name"},
		{"bad statements", config, "mode: set\nm/a/x.go:1.1,2.2 x 1\n", "statements"},
		{"bad count", config, "mode: set\nm/a/x.go:1.1,2.2 1 -1\n", "count"},
		{"unknown key", "threshold: {package: 1, total: 1, file: 1}\n", good, "file"},
		{"no floor", "threshold: {package: 70}\n", good, "threshold 0"},
		{"impossible floor", "threshold: {package: 70, total: 101}\n", good, "threshold 101"},
		{"bad pattern", "threshold: {package: 1, total: 1}\nexclude: {paths: ['(']}\n", good, "exclude path"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := check(t, tt.config, tt.profile)
			require.Error(t, err)
			require.NotErrorIs(t, err, errBelowFloor)
			assert.Contains(t, err.Error(), tt.want)
		})
	}
}

func TestExitCodes(t *testing.T) {
	var out, stderr bytes.Buffer
	assert.Equal(t, 0, exitCode(nil, &stderr))
	assert.Equal(t, 0, exitCode(run([]string{"-h"}, &out), &stderr))
	assert.Equal(t, 1, exitCode(errBelowFloor, &stderr))
	assert.Equal(t, 2, exitCode(run([]string{"-config", filepath.Join(t.TempDir(), "absent")}, &out), &stderr))
	assert.Equal(t, 2, exitCode(run([]string{"-nonsense"}, &out), &stderr))
	assert.NotErrorIs(t, run([]string{"-nonsense"}, &out), flag.ErrHelp)
}

func TestTheShippedFloors(t *testing.T) {
	f, err := readFloors("../../.testcoverage.yml")
	require.NoError(t, err)
	assert.InDelta(t, 70, f.Threshold.Package, 0)
	assert.InDelta(t, 85, f.Threshold.Total, 0)
	assert.False(t, f.excluded(module+"/internal/ingest/gate.go"))
	assert.True(t, f.excluded(module+"/internal/mq/mqtest/suite.go"))
	assert.False(t, f.excluded(module+"/internal/latest/x.go"))
}

const module = "github.com/wavehouse/wavehouse"
