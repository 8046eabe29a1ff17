package archtest

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A code is stable, and clients are written by the manual.
func TestTheManualNamesCodesThatTheProgramAnswers(t *testing.T) {
	packages, err := Load(root)
	require.NoError(t, err)
	literals := map[string]bool{}
	for _, p := range packages {
		for _, f := range p.Files {
			ast.Inspect(f.Syntax, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok {
					literals[strings.Trim(lit.Value, `"`)] = true
				}
				return true
			})
		}
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	answered := regexp.MustCompile("`[45][0-9]{2} ([a-z_]+\\.[a-z_]+)`")
	named := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range answered.FindAllStringSubmatch(string(text), -1) {
			named++
			assert.Truef(t, literals[m[1]], "%s names the code %s, which nothing answers", filepath.Base(page), m[1])
		}
	}
	assert.Positive(t, named)
}
