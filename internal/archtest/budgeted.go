package archtest

import (
	"go/ast"
	"strings"
)

// made are the calls that make what holds memory for a client's bytes.
var made = map[string]bool{
	"gzip.NewReader": true, "gzip.NewWriter": true, "gzip.NewWriterLevel": true, "gzhttp.NewWrapper": true,
	"zstd.NewReader": true, "zstd.NewWriter": true, "flate.NewReader": true, "flate.NewWriter": true,
	"zlib.NewReader": true, "zlib.NewWriter": true,
}

// budgeted are the files that may make one, and what bounds it there.
var budgeted = map[string]string{
	"internal/api/decode.go":                "a body's decoder: its memory is taken before it exists",
	"internal/api/server.go":                "the compressor of answers: room.compressing takes it for what is large",
	"internal/cache/value.go":               "a kept result: as large as it says, which room.hold takes",
	"internal/cache/encoders.go":            "results that are kept: one call at a time has an encoder",
	"internal/chunk/opener.go":              "chunks of the queue: maxUnpacked",
	"internal/mq/embedded/ledger/ledger.go": "a file of this process",
	"internal/dev/demo.go":                  "the demo's own server",
}

// checkBudgeted finds readers, writers and decoders that are made elsewhere than from
// a budget, and bodies that are read without a bound.
func checkBudgeted(p Package, f File) []Violation {
	if budgeted[f.Path] != "" || strings.HasSuffix(p.Dir, "test") || !strings.HasPrefix(p.Dir, "internal/") && !strings.HasPrefix(p.Dir, "cmd/") {
		return nil
	}
	var found []Violation
	ast.Inspect(f.Syntax, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch name := calledName(call); {
		case made[name]:
			found = append(found, Violation{
				File: f.Path, What: name,
				Reason: "memory that a client can cause is taken from a budget before it exists: make it where that is done, or say in archtest what bounds it",
			})
		case name == "io.ReadAll" && !limited(call):
			found = append(found, Violation{
				File: f.Path, What: name,
				Reason: "what is read whole has a bound: io.ReadAll(io.LimitReader(…)), or memory of a budget",
			})
		}
		return true
	})
	return found
}

// limited reports whether what is read is an io.LimitReader.
func limited(call *ast.CallExpr) bool {
	if len(call.Args) != 1 {
		return false
	}
	inner, ok := call.Args[0].(*ast.CallExpr)
	return ok && calledName(inner) == "io.LimitReader"
}

// calledName is the package and the name of a function that is called.
func calledName(call *ast.CallExpr) string {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	from, ok := selector.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return from.Name + "." + selector.Sel.Name
}
