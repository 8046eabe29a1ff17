package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
)

// Module is the import path that the rules are written for.
const Module = "github.com/wavehouse/wavehouse"

// Violation is one broken rule at one place.
type Violation struct {
	// File is relative to the module root.
	File string
	// What names the offending import or declaration.
	What string
	// Reason says why the rule exists.
	Reason string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: %s: %s", v.File, v.What, v.Reason)
}

// Check returns every violation in the packages, in their order.
func Check(packages []Package) []Violation {
	var found []Violation
	for _, p := range packages {
		found = append(found, checkName(p)...)
		for _, f := range p.Files {
			found = append(found, checkDeclarations(f)...)
			found = append(found, checkReserved(p, f)...)
			found = append(found, checkBudgeted(p, f)...)
			for _, imported := range f.Imports {
				if v, bad := checkImport(p, f, imported); bad {
					found = append(found, v)
				}
			}
		}
	}
	return found
}

func checkImport(p Package, f File, imported string) (Violation, bool) {
	reason := ""
	if target, ours := strings.CutPrefix(imported, Module+"/"); ours {
		reason = internalReason(p.Dir, f.Path, target)
	} else {
		reason = libraryReason(p.Dir, imported)
	}
	if reason == "" {
		return Violation{}, false
	}
	return Violation{File: f.Path, What: "import " + imported, Reason: reason}, true
}

// checkName refuses names that say nothing about what a package is for.
func checkName(p Package) []Violation {
	switch p.Name {
	case "util", "utils", "common", "helpers", "helper", "misc":
		return []Violation{{
			File: p.Files[0].Path, What: "package " + p.Name,
			Reason: "a package is named for its one idea; a package of leftovers grows without end and everything depends on it",
		}}
	}
	return nil
}

func checkDeclarations(f File) []Violation {
	var found []Violation
	for _, d := range f.Syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil && d.Name.Name == "init" {
				found = append(found, Violation{
					File: f.Path, What: "func init",
					Reason: "work starts in Run and is wired in internal/app; an init runs on import, cannot fail and cannot be tested",
				})
			}
		case *ast.GenDecl:
			found = append(found, checkVars(f, d)...)
		}
	}
	return found
}

// checkVars refuses package variables that are declared empty: such a variable
// exists to be assigned later. One with a value may be a sentinel error or a
// lookup table, which the linter looks at.
func checkVars(f File, d *ast.GenDecl) []Violation {
	if d.Tok != token.VAR {
		return nil
	}
	var found []Violation
	for _, spec := range d.Specs {
		v, ok := spec.(*ast.ValueSpec)
		if !ok || len(v.Values) > 0 || embeds(d, v) || stamped(f, v) {
			continue
		}
		found = append(found, Violation{
			File: f.Path, What: "var " + v.Names[0].Name,
			Reason: "state belongs to a value that someone builds and owns, not to a package",
		})
	}
	return found
}

// stamped reports whether the linker may fill the variable: a string of a
// command, as the version is.
func stamped(f File, v *ast.ValueSpec) bool {
	kind, ok := v.Type.(*ast.Ident)
	return ok && kind.Name == "string" && f.Syntax.Name.Name == "main" && strings.HasPrefix(f.Path, "cmd/")
}

// embeds reports whether a go:embed directive fills the variable.
func embeds(d *ast.GenDecl, v *ast.ValueSpec) bool {
	for _, group := range []*ast.CommentGroup{d.Doc, v.Doc} {
		if group == nil {
			continue
		}
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "//go:embed ") {
				return true
			}
		}
	}
	return false
}
