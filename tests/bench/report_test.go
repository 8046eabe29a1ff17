package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

// line is one row of the report.
type line struct{ what, ours, baseline, ratio string }

// report prints the table of a section, and writes it into the manual's page
// when asked to.
func report(t *testing.T, section string, lines []line) {
	t.Helper()
	var out strings.Builder
	out.WriteString("| what | WaveHouse | beside it | ratio |\n| --- | --- | --- | --- |\n")
	for _, l := range lines {
		fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", l.what, l.ours, l.baseline, l.ratio)
	}
	publish(t, section, out.String())
}

func publish(t *testing.T, section, table string) {
	t.Helper()
	t.Log("\n" + table)
	if !*write {
		return
	}
	page, err := os.ReadFile(manual(t))
	require.NoError(t, err)
	changed, err := withTable(string(page), section, table)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(manual(t), []byte(changed), 0o644))
}

func manual(t *testing.T) string { return filepath.Join(harness.Root(t), "docs", "benchmarks.md") }

// withTable returns the page with what stands between the markers of the
// section replaced. The prose around them is written by hand.
func withTable(page, section, table string) (string, error) {
	begin, end := "<!-- bench: "+section+" -->\n", "<!-- end -->"
	before, rest, found := strings.Cut(page, begin)
	if !found {
		return "", fmt.Errorf("the page has no marker %q", begin)
	}
	_, after, found := strings.Cut(rest, end)
	if !found {
		return "", fmt.Errorf("the page has no marker %q after %q", end, begin)
	}
	return before + begin + table + end + after, nil
}

func TestEachBenchmarkReplacesItsOwnTableOfThePage(t *testing.T) {
	const page = "# A\n<!-- bench: a -->\nold\n<!-- end -->\n# B\n<!-- bench: b -->\nkept\n<!-- end -->\n"
	changed, err := withTable(page, "a", "| new |\n")
	require.NoError(t, err)
	assert.Equal(t, strings.Replace(page, "old", "| new |", 1), changed)
	_, err = withTable(page, "c", "")
	require.ErrorContains(t, err, "bench: c")
	_, err = withTable("<!-- bench: a -->\n", "a", "")
	require.ErrorContains(t, err, "<!-- end -->")
}

func TestThePageHasAPlaceForEachBenchmark(t *testing.T) {
	page, err := os.ReadFile(manual(t))
	require.NoError(t, err)
	for _, section := range []string{"ingest", "queries", "pages", "streams", "tenants", "cluster", "processes", "cluster tenants"} {
		_, err := withTable(string(page), section, "")
		assert.NoError(t, err)
	}
}
