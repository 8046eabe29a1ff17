package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// promisePages say what is promised, each in a table under promiseHeader.
var promisePages = []string{"docs/durability.md", "docs/security.md", "docs/tenants.md", "SECURITY.md"}

const promiseHeader = "| promise | covers | does not cover | held by |"

// A promise is worth the test that holds it, and says so where there is none.
func TestEveryPromiseNamesTheTestThatHoldsIt(t *testing.T) {
	tests := testNames(t)
	for _, page := range promisePages {
		text, err := os.ReadFile(filepath.Join(root, page))
		require.NoError(t, err)
		promises := promisesOf(string(text))
		assert.NotEmptyf(t, promises, "%s has no table of promises", page)
		for _, fault := range faultsOfPromises(promises, tests) {
			t.Errorf("%s: %s", page, fault)
		}
	}
}

// Tests are named elsewhere in the manual, too.
func TestTheTestsThatTheManualNamesAreThere(t *testing.T) {
	tests := testNames(t)
	named := regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9]*)`")
	found := 0
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		pages, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		for _, page := range pages {
			text, err := os.ReadFile(page)
			require.NoError(t, err)
			for _, m := range named.FindAllStringSubmatch(string(text), -1) {
				found++
				assert.Truef(t, tests[m[1]], "%s names %s, which is not there", filepath.Base(page), m[1])
			}
		}
	}
	assert.Positive(t, found)
}

func TestPromisesThatNothingHoldsAreFound(t *testing.T) {
	tests := map[string]bool{"TestOne": true, "a stream goes on": true}
	page := "# A page\n\n" + promiseHeader + "\n| --- | --- | --- | --- |\n"
	for row, fault := range map[string]string{
		"| One. | all | time | `TestOne` |":                         "",
		"| One. | `a | b` | time | `a stream goes on`, `TestOne` |": `has 5 cells`,
		"| One. | all | time | `a stream goes on`, `TestOne` |":     "",
		"| One. | all | time | no test |":                           "",
		"| One. | all | time | no test: nobody pulls the plug |":    "",
		"| One. | all | time | `TestTwo` |":                         "names `TestTwo`, which is not there",
		"| One. | all | time | `TestOne`, `a stream ends` |":        "names `a stream ends`, which is not there",
		"| One. | all | time | the suites |":                        "names no test",
		"| One. | all | time | |":                                   "has an empty cell",
		"| One. | all | | `TestOne` |":                              "has an empty cell",
		"| One. | all | `TestOne` |":                                "has 3 cells",
	} {
		faults := faultsOfPromises(promisesOf(page+row+"\n\n| another | table |\n"), tests)
		if fault == "" {
			assert.Emptyf(t, faults, "%s", row)
			continue
		}
		assert.Containsf(t, strings.Join(faults, "\n"), fault, "%s", row)
	}
	assert.Empty(t, promisesOf("| promise | held by |\n| --- | --- |\n| One. | `TestOne` |\n"))
}

// promisesOf are the cells of each row of a page's tables of promises.
func promisesOf(page string) [][]string {
	var rows [][]string
	inside := false
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		switch {
		case line == promiseHeader:
			inside = true
		case !strings.HasPrefix(line, "|"):
			inside = false
		case inside && !strings.HasPrefix(line, "| ---"):
			cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, cells)
		}
	}
	return rows
}

// faultsOfPromises says which rows name no test, or one that is not there.
func faultsOfPromises(rows [][]string, tests map[string]bool) []string {
	code := regexp.MustCompile("`([^`]+)`")
	var faults []string
	for _, cells := range rows {
		fault := func(what string) { faults = append(faults, "the promise “"+cells[0]+"” "+what) }
		if len(cells) != 4 {
			fault("has " + strconv.Itoa(len(cells)) + " cells")
			continue
		}
		for _, cell := range cells {
			if cell == "" {
				fault("has an empty cell")
			}
		}
		names := code.FindAllStringSubmatch(cells[3], -1)
		if len(names) == 0 && !strings.HasPrefix(cells[3], "no test") {
			fault("names no test and does not say that there is none")
		}
		for _, m := range names {
			if !tests[m[1]] {
				fault("names `" + m[1] + "`, which is not there")
			}
		}
	}
	return faults
}

// testNames are the names of the tests of the tree, those of the SDK included.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	of := regexp.MustCompile(`^(Test|Fuzz|Benchmark)[A-Z]`)
	script := regexp.MustCompile(`(?m)^test\("([^"\\]+)"`)
	scripts := 0
	require.NoError(t, walk(root, func(name, rel string) error {
		switch {
		case strings.HasSuffix(rel, "_test.go"):
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && of.MatchString(fn.Name.Name) {
					names[fn.Name.Name] = true
				}
			}
		case strings.HasSuffix(rel, ".test.ts"):
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			for _, m := range script.FindAllStringSubmatch(string(text), -1) {
				scripts++
				names[m[1]] = true
			}
		}
		return nil
	}))
	assert.Positive(t, scripts, "the tests of the SDK are found")
	return names
}
