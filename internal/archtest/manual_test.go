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

// Whoever follows the way of a row has nothing but names to go by.
func TestTheWayOfARowNamesFunctionsThatAreThere(t *testing.T) {
	packages, err := Load(root)
	require.NoError(t, err)
	declared := map[string]map[string]bool{}
	for _, p := range packages {
		for _, f := range p.Files {
			declared[f.Path] = functions(f)
		}
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "way-of-a-row.md"))
	require.NoError(t, err)
	step := regexp.MustCompile("(?m)^\\|.*\\| (`.+`) \\| `(.+\\.go)` \\|$")
	steps := step.FindAllStringSubmatch(string(page), -1)
	assert.Greater(t, len(steps), 10, "the steps are found")
	for _, m := range steps {
		if !assert.Containsf(t, declared, m[2], "there is no file %s", m[2]) {
			continue
		}
		for _, name := range strings.Split(strings.ReplaceAll(m[1], "`", ""), ", ") {
			assert.Truef(t, declared[m[2]][name], "%s has no function %s", m[2], name)
		}
	}
}

// functions are the functions of a file, methods with their type: Type.Method.
func functions(f File) map[string]bool {
	names := map[string]bool{}
	for _, d := range f.Syntax.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := fn.Name.Name
		if fn.Recv != nil {
			receiver := fn.Recv.List[0].Type
			if pointer, ok := receiver.(*ast.StarExpr); ok {
				receiver = pointer.X
			}
			if generic, ok := receiver.(*ast.IndexExpr); ok {
				receiver = generic.X
			}
			if typ, ok := receiver.(*ast.Ident); ok {
				name = typ.Name + "." + name
			}
		}
		names[name] = true
	}
	return names
}

func TestTheFilesThatTheManualNamesAreThere(t *testing.T) {
	named := regexp.MustCompile("`((?:internal|cmd|tests|scripts|deployments|sdk|docs)/[a-zA-Z0-9_./-]*)`")
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		pages, err := filepath.Glob(filepath.Join(root, pattern))
		require.NoError(t, err)
		assert.NotEmpty(t, pages)
		for _, page := range pages {
			text, err := os.ReadFile(page)
			require.NoError(t, err)
			for _, m := range named.FindAllStringSubmatch(string(text), -1) {
				_, err := os.Stat(filepath.Join(root, m[1]))
				assert.NoErrorf(t, err, "%s names %s", filepath.Base(page), m[1])
			}
		}
	}
}

func TestTheGlossaryNamesWhatIsThere(t *testing.T) {
	packages, err := Load(root)
	require.NoError(t, err)
	declared := map[string]bool{}
	for _, p := range packages {
		for _, f := range p.Files {
			for _, name := range declarations(f) {
				declared[p.Name+"."+name] = true
			}
		}
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "glossary.md"))
	require.NoError(t, err)
	rows := regexp.MustCompile("(?m)^\\| .+ \\| .+ \\| (`.+`) \\|$").FindAllStringSubmatch(string(page), -1)
	assert.Greater(t, len(rows), 10, "the words are found")
	for _, m := range rows {
		for _, name := range strings.Split(strings.ReplaceAll(m[1], "`", ""), ", ") {
			assert.Truef(t, declared[name], "there is no %s", name)
		}
	}
}

// declarations are the types, constants, variables and functions of a file.
func declarations(f File) []string {
	var names []string
	for _, d := range f.Syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			names = append(names, d.Name.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					names = append(names, spec.Name.Name)
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	return names
}

func TestTheMapAndTheDiagramNameEveryRoom(t *testing.T) {
	packages, err := Load(root)
	require.NoError(t, err)
	guide, err := os.ReadFile(filepath.Join(root, "AGENTS.md"))
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	require.NoError(t, err)
	_, diagram, found := strings.Cut(string(page), "## Who may import whom")
	require.True(t, found)
	rooms := map[string]bool{}
	for _, p := range packages {
		inside, internal := strings.CutPrefix(p.Dir, "internal/")
		if testSupport(p.Dir) || !internal && !strings.HasPrefix(p.Dir, "cmd/") {
			continue
		}
		assert.Containsf(t, string(guide), "`"+p.Dir+"`", "the map of AGENTS.md lacks %s", p.Dir)
		if internal {
			rooms[head(inside)] = true
		}
	}
	for room := range rooms {
		assert.Regexpf(t, `\b`+room+`\b`, diagram, "the diagram of docs/architecture.md lacks %s", room)
		assert.Containsf(t, tiers, room, "the tiers lack %s", room)
	}
	for room := range tiers {
		assert.Truef(t, rooms[room], "the tiers name %s, which is not there", room)
	}
	for _, o := range owners {
		for _, folder := range o.folders {
			assert.DirExistsf(t, filepath.Join(root, folder), "%s may be imported in %s", o.library, folder)
		}
	}
}
