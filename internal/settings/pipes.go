package settings

import (
	"fmt"
	"slices"

	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/strictjson"
)

// checkPipes holds pipes.json against the rules that need no knowledge of SQL.
func (k *compiler) checkPipes(s *source) {
	if n := len(k.docs.pipes.Pipes); n > maxPipes {
		s.error("pipes", fmt.Sprintf("want at most %d pipes, not %d", maxPipes, n))
		return
	}
	seen := map[string]bool{}
	for i, pipe := range k.docs.pipes.Pipes {
		path := strictjson.Index("pipes", i)
		if pipe.Name == "" {
			s.error(path, "a pipe must have a name")
		} else if seen[pipe.Name] {
			s.error(strictjson.Join(path, "name"), fmt.Sprintf("the pipe %q is there twice", pipe.Name))
		}
		seen[pipe.Name] = true
		k.pipeRoles(s, strictjson.Join(path, "allowed_roles"), pipe.AllowedRoles)
		pipeParameters(s, strictjson.Join(path, "parameters"), pipe.Parameters)
	}
}

func (k *compiler) pipeRoles(s *source, path string, roles []string) {
	if !k.rolesKnown {
		return
	}
	for i, role := range roles {
		if role != policy.DefaultAdminRole && !slices.Contains(k.docs.roles.Roles, role) {
			s.error(strictjson.Index(path, i), fmt.Sprintf("role %q is not in %s", role, fileRoles))
		}
	}
}

func pipeParameters(s *source, path string, parameters []parameterDocument) {
	for i, p := range parameters {
		at := strictjson.Index(path, i)
		if p.Required && s.doc.Has(strictjson.Join(at, "default")) {
			s.warn(strictjson.Join(at, "default"), "a required parameter's default is never used")
		}
	}
}
