package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// findLibrary returns the engine's library: the one named, or the newest that
// a cache above the executable or the working directory holds.
func findLibrary(named string) (string, error) {
	if named != "" {
		if _, err := os.Stat(named); err != nil {
			return "", fmt.Errorf("the engine's library: %w", err)
		}
		return filepath.Abs(named)
	}
	for _, start := range startingPoints() {
		if lib := searchUp(start); lib != "" {
			return lib, nil
		}
	}
	return "", fmt.Errorf("no libchdb.so in .cache/clickhouse/: run scripts/fetch-clickhouse.sh, or set CLICKHOUSE_LIB")
}

func startingPoints() []string {
	var dirs []string
	if dir, err := os.Getwd(); err == nil {
		dirs = append(dirs, dir)
	}
	if exe, err := os.Executable(); err == nil {
		dirs = append(dirs, filepath.Dir(exe))
	}
	return dirs
}

// searchUp looks for a cache in dir and every directory above it.
func searchUp(dir string) string {
	for {
		found, _ := filepath.Glob(filepath.Join(dir, ".cache", "clickhouse", "*", "libchdb.so"))
		if len(found) > 0 {
			return slices.Max(found)
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}
