// Package nearest finds the known name that a mistyped one most likely meant.
package nearest

import (
	"fmt"
	"strings"
)

// maxLen bounds the work for one comparison; longer names get no suggestion.
const maxLen = 64

// maxNamed is the most names that are all told.
const maxNamed = 32

// Name returns the entry of known that is closest to name, and whether one is
// close enough to be worth suggesting. Case is ignored; the earliest of equals
// wins.
func Name(name string, known []string) (string, bool) {
	if name == "" || len(name) > maxLen {
		return "", false
	}
	best, bestDistance := "", limit(name)+1
	for _, k := range known {
		if len(k) > maxLen {
			continue
		}
		if d := distance(strings.ToLower(name), strings.ToLower(k)); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best, best != ""
}

// Hint asks whether the entry of known that is closest was meant, to be put
// behind a message; "" when none is close enough.
func Hint(name string, known []string) string {
	near, ok := Name(name, known)
	if !ok {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", near)
}

// OneOf is Hint, but names all that is known when none is close and they are few.
func OneOf(name string, known []string) string {
	hint := Hint(name, known)
	if hint == "" && len(known) > 0 && len(known) <= maxNamed {
		hint = "; want one of " + strings.Join(known, ", ")
	}
	return hint
}

// limit is how many edits away a suggestion may be: a third of the name, so
// that a short name is not "corrected" into an unrelated one.
func limit(name string) int {
	return max(1, len(name)/3)
}

// distance counts insertions, deletions, substitutions and swaps of two
// neighbours.
func distance(a, b string) int {
	var rows [3][maxLen + 1]int
	before, above, row := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}
