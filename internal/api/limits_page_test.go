package api

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + name)
	require.NoError(t, err)
	return string(text)
}

// The page of limits names every key that bounds something and every code that says
// that a bound was met, and no key and no code that there is not. The pages of keys are
// written from the keys themselves, and that of codes is compared with the source.
func TestThePageOfLimitsIsComplete(t *testing.T) {
	limits := page(t, "limits.md")
	keys := map[string]bool{}
	bounds := regexp.MustCompile(`^limits\.|\.limits\.|\.max_(bytes|rows|subscribers|open_conns|total_conns|wait|token_age)|_max_rows|max_bytes_gb|query_timeout|op_timeout|gap_window`)
	keys["cache.ttl"] = true // of a pipe
	for _, name := range []string{"settings.md", "configuration.md"} {
		for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_.*<>]+)`").FindAllStringSubmatch(page(t, name), -1) {
			keys[row[1]] = true
			if strings.HasPrefix(row[1], "ingest.tables.") {
				continue // as ingest.flush
			}
			family := row[1][:strings.LastIndex(row[1], ".")+1] + "*"
			if bounds.MatchString(row[1]) && !strings.Contains(limits, "`"+row[1]+"`") && !strings.Contains(limits, "`"+family+"`") {
				assert.Fail(t, "a limit that docs/limits.md does not name", "%s of docs/%s", row[1], name)
			}
		}
	}
	require.Greater(t, len(keys), 80)

	codes := map[string]bool{}
	met := regexp.MustCompile(`too_large|too_many|\.full$|\.busy$|limit`)
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| *([0-9, ]*) *\\|").FindAllStringSubmatch(page(t, "errors.md"), -1) {
		codes[row[1]] = true
		refuses := strings.Contains(row[2], "413") || strings.Contains(row[2], "429") || strings.Contains(row[2], "431")
		if (refuses || met.MatchString(row[1])) && row[2] != "" && !strings.Contains(limits, row[1]) {
			assert.Fail(t, "a code that docs/limits.md does not name", "%s", row[1])
		}
	}
	require.Greater(t, len(codes), 50)

	for _, row := range strings.Split(limits, "\n") {
		cells := strings.Split(row, "|")
		if len(cells) < 6 || strings.HasPrefix(row, "| what") || strings.HasPrefix(row, "| ---") {
			continue
		}
		for _, name := range regexp.MustCompile("`([a-z_]+\\.[a-z_.]+)`").FindAllStringSubmatch(cells[3], -1) {
			assert.True(t, keys[name[1]], "docs/limits.md names the key %s", name[1])
		}
		for _, name := range regexp.MustCompile("`(?:[0-9]{3} )?([a-z_]+\\.[a-z_]+)`").FindAllStringSubmatch(cells[4], -1) {
			assert.True(t, codes[name[1]] || keys[name[1]], "docs/limits.md names the code %s", name[1])
		}
	}
}
