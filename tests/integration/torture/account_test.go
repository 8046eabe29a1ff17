package torture

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// columnSets is how many INSERTs a batch of these rows is: with and without
// the column that may be left out.
const columnSets = 2

// tally is what became of a table's rows.
type tally struct {
	answered, stored, parked int
	// both counts rows that are stored and parked.
	both int
	// repeated counts rows that are stored more than once, inserts the INSERTs
	// that stored their first copies.
	repeated, inserts int
	// missing counts answered rows that are nowhere, which only damage to the
	// disk may explain.
	missing int
	// faults are rows that are changed, or where they must not be.
	faults []string
}

func (y *tally) fault(format string, args ...any) {
	y.faults = append(y.faults, fmt.Sprintf(format, args...))
}

// account finds every answered row of a table in ClickHouse or in the dead
// letters, and nothing else, as it was sent.
func (r *rig) account(tb *table) tally {
	var y tally
	copies, letters := r.copies(tb, &y), r.letters(tb)
	for n, kept := range letters {
		for _, letter := range kept {
			if want := tb.row(n); letter.ID != want.ID || letter.Sum != want.Sum || letter.digest() != want.Sum {
				y.fault("dead letter %+v, sent %+v", letter, want)
			}
		}
		tb.allowed(n, "parked", &y)
		if len(copies[n]) > 0 {
			y.both++
		}
	}
	firsts := map[string]bool{}
	for n, at := range copies {
		tb.allowed(n, "stored", &y)
		if len(at) > 1 {
			y.repeated++
			firsts[at[0]] = true
		}
	}
	y.stored, y.parked, y.inserts = len(copies), len(letters), len(firsts)
	for _, n := range tb.answeredRows() {
		y.answered++
		switch {
		case len(copies[n]) == 0 && len(letters[n]) == 0:
			y.missing++
		case tb.poison(n) && len(letters[n]) == 0:
			y.missing++
		}
	}
	return y
}

// allowed faults a row that should be nowhere.
func (tb *table) allowed(n int, what string, y *tally) {
	switch o, ok := tb.outcome(n); {
	case !ok:
		y.fault("row %d was never sent and is %s", n, what)
	case o == refused:
		y.fault("row %d was refused and is %s", n, what)
	}
}

// copies returns when each row of a table was stored, the first time first.
func (r *rig) copies(tb *table, y *tally) map[int][]string {
	copies := map[int][]string{}
	for line := range strings.Lines(r.clickhouse.Must(r.t, tb.stored())) {
		var n int
		var id, sent, stored, at string
		_, err := fmt.Sscan(line, &n, &id, &sent, &stored, &at)
		require.NoError(r.t, err, line)
		if want := tb.row(n); id != want.ID || sent != want.Sum || stored != want.Sum {
			y.fault("stored %s, sent %+v", line, want)
		}
		copies[n] = append(copies[n], at)
	}
	return copies
}

// judge fails the test for what is wrong with a table.
func (r *rig) judge(tb *table, y tally) {
	r.say("%-14s %6d answered, %6d stored, %5d parked, %4d both, %5d stored more than once by %d INSERTs, %d missing",
		tb, y.answered, y.stored, y.parked, y.both, y.repeated, y.inserts, y.missing)
	slices.Sort(y.faults)
	if n := len(y.faults); n > 0 {
		assert.Failf(r.t, "rows are not where they belong", "%s: %d faults, such as\n%s", tb, n, strings.Join(y.faults[:min(n, 10)], "\n"))
	}
}

// statusText counts the answers by status; 0 is none.
func (l *load) statusText() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var text []string
	for _, status := range slices.Sorted(maps.Keys(l.statuses)) {
		text = append(text, fmt.Sprintf("%d×%d", l.statuses[status], status))
	}
	return strings.Join(text, ", ")
}
