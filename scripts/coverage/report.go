package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// report prints every package, worst last, and returns errBelowFloor when one
// or the total is too low.
func report(w io.Writer, packages map[string]tally, f *floors) error {
	if len(packages) == 0 {
		return errors.New("the profiles name no package")
	}
	names := slices.SortedFunc(maps.Keys(packages), func(a, b string) int {
		return compare(packages[b].percent(), packages[a].percent(), a, b)
	})
	var total tally
	low := 0
	for _, name := range names {
		t := packages[name]
		total.covered += t.covered
		total.total += t.total
		low += printLine(w, name, t, f.Threshold.Package)
	}
	low += printLine(w, "total", total, f.Threshold.Total)
	if low > 0 {
		return fmt.Errorf("%w: %d of %d lines above", errBelowFloor, low, len(names)+1)
	}
	return nil
}

// compare orders by percentage, then by name so that equal runs print alike.
func compare(x, y float64, a, b string) int {
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	case a < b:
		return -1
	}
	return 1
}

func printLine(w io.Writer, name string, t tally, floor float64) (low int) {
	mark := ""
	if t.percent() < floor {
		mark = fmt.Sprintf("  below %v%%", floor)
		low = 1
	}
	_, _ = fmt.Fprintf(w, "%6.1f%%  %s (%d of %d statements)%s\n", t.percent(), name, t.covered, t.total, mark)
	return low
}
