package record_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/record"
)

var update = flag.Bool("update", false, "write the list of differences into the manual")

// manual is the page that lists the differences, between two marks.
var manual = filepath.Join("..", "..", "docs", "types.md")

const (
	beginMark = "<!-- differences: begin -->\n"
	endMark   = "<!-- differences: end -->\n"
)

// meeting is a value of which this server makes something else than ClickHouse.
type meeting struct {
	difference             *difference
	format, typeText, text string
	ours, theirs           string
}

// show is an outcome in words.
func show(codec record.Codec, o outcome) string {
	if !o.stored {
		if o.code != "" {
			return "`" + o.code + "`"
		}
		return "refused"
	}
	text, _, err := codec.RenderJSON(nil, o.value, record.RenderOptions{})
	if err != nil {
		return fmt.Sprintf("bytes %x, which do not read", o.value)
	}
	return "stored as " + code(string(text))
}

// code sets text as code in a table's cell.
func code(text string) string {
	if text == "" {
		return "(empty)"
	}
	if len(text) > 60 {
		text = strings.ToValidUTF8(text[:57], "") + "…"
	}
	text = strings.NewReplacer("|", `\|`, "\n", " ").Replace(text)
	fence := "`"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") || text == "" || strings.TrimSpace(text) != text {
		text = " " + text + " "
	}
	return fence + text + fence
}

// examples bounds the values that the manual shows of one difference.
const examples = 6

func differencesPage(version string, met []meeting) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Compared with ClickHouse %s.\n", version)
	for i := range differences {
		d := &differences[i]
		fmt.Fprintf(&b, "\n### %s%s\n\n", strings.ToUpper(d.why[:1]), d.why[1:])
		b.WriteString("| format | type | value | ClickHouse | this server |\n| --- | --- | --- | --- | --- |\n")
		for _, m := range pick(met, d) {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", m.format, code(m.typeText), code(m.text), m.theirs, m.ours)
		}
	}
	return b.String()
}

// pick takes the first meetings of a difference, of as many types and formats
// as there is room for.
func pick(met []meeting, d *difference) []meeting {
	var picked []meeting
	for _, everyType := range []bool{false, true} {
		seen := make(map[string]bool)
		for _, m := range met {
			key := m.typeText + m.format
			if everyType {
				key += m.text
			}
			if m.difference == d && len(picked) < examples && !seen[key] && !contains(picked, m) {
				picked = append(picked, m)
			}
			seen[key] = true
		}
	}
	return picked
}

func contains(all []meeting, m meeting) bool {
	for _, o := range all {
		if o == m {
			return true
		}
	}
	return false
}

// checkManual holds the page against what was met just now. Another version
// than the page's may do other things to refused values, and is not held
// against it.
func checkManual(t *testing.T, e *engine, met []meeting) {
	version := strings.TrimSpace(string(e.run("SELECT version() FORMAT TSVRaw", nil, "")))
	page, err := os.ReadFile(manual)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(page), beginMark)
	require.True(t, ok, "%s has no mark %q", manual, beginMark)
	current, after, ok := strings.Cut(rest, endMark)
	require.True(t, ok, "%s has no mark %q", manual, endMark)
	want := differencesPage(version, met)
	switch {
	case *update:
		require.NoError(t, os.WriteFile(manual, []byte(before+beginMark+want+endMark+after), 0o644))
	case strings.HasPrefix(current, "Compared with ClickHouse "+version+"."):
		require.Equal(t, want, current, "%s is not current: run this test with -update", manual)
	}
}
