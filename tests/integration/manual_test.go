package integration

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

// What the manual says that a document is answered is what it is answered: every
// document with an answer behind it, in the sections that make their table.
func TestTheManualsQueriesAreAnsweredAsItSays(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(harness.Root(t), "docs", "query.md"))
	require.NoError(t, err)
	asked := 0
	for section := range strings.SplitSeq(string(page), "\n### ") {
		_, rest, made := strings.Cut(section, "```sql\n")
		if !made {
			continue
		}
		setup, rest, _ := strings.Cut(rest, "```\n")
		statements := strings.Split(strings.TrimSuffix(strings.TrimSpace(setup), ";"), ";\n")
		table := regexp.MustCompile(`CREATE TABLE (\w+)`).FindStringSubmatch(statements[0])[1]
		asked += answeredAsShown(t, start(t, options{}, statements...), table, rest)
	}
	assert.GreaterOrEqual(t, asked, 4)
}

// answeredAsShown asks the documents of a section and returns how many there are.
func answeredAsShown(t *testing.T, s *server, table, section string) (asked int) {
	t.Helper()
	blocks := regexp.MustCompile("(?s)```json\n(.*?)\n```").FindAllStringSubmatch(section, -1)
	for i := 0; i+1 < len(blocks); i++ {
		document, answer := blocks[i][1], blocks[i+1][1]
		if !strings.HasPrefix(document, "{") || !strings.HasPrefix(answer, "[") && !strings.HasPrefix(answer, `{"rows"`) {
			continue
		}
		asked++
		a := s.query(table, document)
		if assert.Equal(t, http.StatusOK, a.status, "%s\n%s", document, a.body) {
			assert.Equal(t, compact(t, json.RawMessage(answer)), compact(t, json.RawMessage(a.body)), document)
		}
	}
	return asked
}
