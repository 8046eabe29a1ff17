package archtest

import (
	"go/ast"
	"path"
	"slices"
	"strconv"
)

// reserved keeps exported names of a package, of the module by its path from
// the root, to the folders below it that they are exported for.
type reserved struct {
	target string
	names  []string
	reason string
}

var reservations = []reserved{
	{"internal/mq", []string{"NewPosition", "SplitPosition"},
		"only brokers make positions and look inside; to all others a topic's queue may be one of many, and a position is what mq.Position's methods say"},
}

// checkReserved refuses the use of reserved names by other packages.
func checkReserved(p Package, f File) []Violation {
	var found []Violation
	for _, r := range reservations {
		if testSupport(p.Dir) || inAny(p.Dir, []string{r.target}) {
			continue
		}
		local := localName(f, Module+"/"+r.target)
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok || !slices.Contains(r.names, s.Sel.Name) {
				return true
			}
			if x, ok := s.X.(*ast.Ident); ok && x.Name == local {
				found = append(found, Violation{File: f.Path, What: path.Base(r.target) + "." + s.Sel.Name, Reason: r.reason})
			}
			return true
		})
	}
	return found
}

// localName is what the file calls an imported package, "" when it does not
// import it.
func localName(f File, imported string) string {
	for _, spec := range f.Syntax.Imports {
		if spec.Path.Value != strconv.Quote(imported) {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(imported)
	}
	return ""
}
