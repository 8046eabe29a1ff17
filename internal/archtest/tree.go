package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// File is one parsed source file that is not a test.
type File struct {
	// Path is relative to the module root, with slashes.
	Path string
	// Imports are the file's import paths, unquoted.
	Imports []string
	Syntax  *ast.File
}

// Package is a folder of Go files.
type Package struct {
	// Dir is relative to the module root, with slashes; "." is the root.
	Dir string
	// Name is the package clause of its files, "" when it has only tests.
	Name  string
	Files []File
}

// Load parses every Go file below root that is not a test. Folders that the go
// tool ignores (testdata, vendor, names that begin with . or _) and
// node_modules are left out. Packages come sorted by folder.
func Load(root string) ([]Package, error) {
	byDir := map[string]*Package{}
	err := walk(root, func(name, rel string) error {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		return addFile(byDir, name, rel)
	})
	if err != nil {
		return nil, fmt.Errorf("load source tree %s: %w", root, err)
	}
	return sorted(byDir), nil
}

// walk calls visit with every file below root: its name, and its path relative
// to root with slashes.
func walk(root string, visit func(name, rel string) error) error {
	return filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != root && ignoredDir(d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return fmt.Errorf("path of %s below %s: %w", name, root, err)
		}
		return visit(name, filepath.ToSlash(rel))
	})
}

func ignoredDir(name string) bool {
	switch name {
	case "testdata", "vendor", "node_modules":
		return true
	}
	return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
}

func addFile(byDir map[string]*Package, name, rel string) error {
	syntax, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return fmt.Errorf("parse %s: %w", name, err)
	}
	f := File{Path: rel, Syntax: syntax}
	for _, spec := range syntax.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return fmt.Errorf("import %s in %s: %w", spec.Path.Value, f.Path, err)
		}
		f.Imports = append(f.Imports, imported)
	}
	dir := path.Dir(f.Path)
	p := byDir[dir]
	if p == nil {
		p = &Package{Dir: dir, Name: syntax.Name.Name}
		byDir[dir] = p
	}
	p.Files = append(p.Files, f)
	return nil
}

func sorted(byDir map[string]*Package) []Package {
	packages := make([]Package, 0, len(byDir))
	for _, p := range byDir {
		packages = append(packages, *p)
	}
	sort.Slice(packages, func(i, j int) bool { return packages[i].Dir < packages[j].Dir })
	return packages
}
