package api

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// errorCode is how the code of an error looks.
var errorCode = regexp.MustCompile(`^([a-z_]+\.[a-z_]+|internal)$`)

// codesInSource are the codes of errors that the source names: what problem is given,
// fields and constants that are called Code, and those of the verdicts.
func codesInSource(t *testing.T) []string {
	t.Helper()
	var codes []string
	add := func(e ast.Expr) {
		if literal, ok := e.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil && errorCode.MatchString(text) {
				codes = append(codes, text)
			}
		}
	}
	visit := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "problem" && len(n.Args) == 3 {
				add(n.Args[1])
			}
			if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "overLimit" {
				codes = append(codes, "tenant.rate_limited")
			}
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Code" {
				add(n.Value)
			}
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if strings.HasPrefix(strings.ToLower(name.Name), "code") && i < len(n.Values) {
					add(n.Values[i])
				}
			}
		}
		return true
	}
	for _, dir := range []string{"api", "auth", "clickhouse", "ingest", "letters", "pipes", "query", "record", "stream"} {
		require.NoError(t, filepath.WalkDir(filepath.Join("..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err == nil {
				ast.Inspect(file, visit)
			}
			return err
		}))
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

// Every code is on the page of errors and in the OpenAPI document, and neither names
// another.
func TestEveryErrorCodeIsListed(t *testing.T) {
	codes := codesInSource(t)
	require.Greater(t, len(codes), 50)

	page, err := os.ReadFile("../../docs/errors.md")
	require.NoError(t, err)
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\|").FindAllSubmatch(page, -1) {
		listed = append(listed, string(row[1]))
	}
	slices.Sort(listed)
	require.Equal(t, codes, listed, "docs/errors.md")

	var document struct {
		Components struct {
			Schemas struct {
				ErrorCode struct {
					Enum []string `json:"enum"`
				} `json:"ErrorCode"`
			} `json:"schemas"`
		} `json:"components"`
	}
	require.NoError(t, json.Unmarshal(openAPIDocument, &document))
	enum := document.Components.Schemas.ErrorCode.Enum
	slices.Sort(enum)
	require.Equal(t, codes, enum, "the enum ErrorCode of the OpenAPI document")
}
