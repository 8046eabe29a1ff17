package deployments

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/archtest"
)

// Alerts, panels and the operator's page go silent when a metric is renamed,
// which nobody notices until the day they are needed.
func TestMetricsThatAreNamedExist(t *testing.T) {
	made := metricsInSource(t)
	require.Greater(t, len(made), 10)
	// A name is not the name of a file, nor a pattern such as wavehouse_*.
	metric := regexp.MustCompile(`\bwavehouse_[a-z0-9_]+\b`)
	for _, file := range []string{"kubernetes/alerts.yaml", "grafana/wavehouse.json", "../docs/operations.md"} {
		named := metric.FindAllString(string(read(t, file)), -1)
		assert.NotEmpty(t, named, file)
		for _, name := range named {
			assert.True(t, made[name] || made[histogram(name)], "%s names %s, which no package makes", file, name)
		}
	}
}

// Every metric of the product is explained to whoever runs it.
func TestEveryMetricIsDocumented(t *testing.T) {
	page := string(read(t, "../docs/operations.md"))
	for name := range metricsInSource(t) {
		assert.True(t, strings.Contains(page, "`"+name+"`"), "docs/operations.md lacks %s", name)
	}
}

func TestDashboardPanels(t *testing.T) {
	var board struct {
		Title  string
		UID    string
		Panels []struct {
			ID      int
			Title   string
			Type    string
			GridPos struct{ H, W, X, Y int }
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(read(t, "grafana/wavehouse.json"), &board))
	assert.NotEmpty(t, board.Title)
	assert.NotEmpty(t, board.UID)
	ids := map[int]bool{}
	for _, p := range board.Panels {
		assert.False(t, ids[p.ID], "panel %d is there twice", p.ID)
		ids[p.ID] = true
		assert.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		if p.Type != "row" {
			assert.NotEmpty(t, p.Targets, p.Title)
		}
		for _, target := range p.Targets {
			assert.Equal(t, strings.Count(target.Expr, "("), strings.Count(target.Expr, ")"), target.Expr)
		}
	}
	assert.Greater(t, len(ids), 8)
}

func histogram(name string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		name = strings.TrimSuffix(name, suffix)
	}
	return name
}

// metricsInSource returns the names that the product's packages give metrics:
// string literals that are whole names, and names that a helper of the file
// puts behind a prefix.
func metricsInSource(t *testing.T) map[string]bool {
	t.Helper()
	packages, err := archtest.Load("..")
	require.NoError(t, err)
	made := map[string]bool{}
	for _, p := range packages {
		if strings.HasPrefix(p.Dir, "internal/") {
			for _, f := range p.Files {
				addMetrics(made, f.Syntax)
			}
		}
	}
	return made
}

var (
	wholeName = regexp.MustCompile(`^wavehouse_[a-z0-9_]*[a-z0-9]$`)
	prefix    = regexp.MustCompile(`^wavehouse_[a-z0-9_]*_$`)
	rest      = regexp.MustCompile(`^[a-z0-9_]+$`)
)

func addMetrics(made map[string]bool, file *ast.File) {
	var prefixes, rests []string
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			text := literal(n)
			if wholeName.MatchString(text) {
				made[text] = true
			}
			if prefix.MatchString(text) {
				prefixes = append(prefixes, text)
			}
		case *ast.CallExpr:
			// A helper is called with the rest of the name and the help.
			if len(n.Args) < 2 || !strings.HasSuffix(literal(n.Args[1]), ".") {
				return true
			}
			if name := literal(n.Args[0]); rest.MatchString(name) && !wholeName.MatchString(name) {
				rests = append(rests, name)
			}
		}
		return true
	})
	for _, p := range prefixes {
		for _, r := range rests {
			made[p+r] = true
		}
	}
}

// literal returns the text of a string literal, "" for anything else.
func literal(n ast.Expr) string {
	lit, ok := n.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return text
}

func TestMetricsAreFoundInSource(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "m.go", `package m
var a = metric("wavehouse_a_total", "Whole.")
var b = join("wavehouse_b_", "x")
var c = counter("bytes", "Bytes sent.", "too_large")
var d = other("too_small", 1)`, 0)
	require.NoError(t, err)
	made := map[string]bool{}
	addMetrics(made, file)
	assert.Equal(t, map[string]bool{"wavehouse_a_total": true, "wavehouse_b_bytes": true}, made)
}
