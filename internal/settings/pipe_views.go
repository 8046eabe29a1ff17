package settings

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/wavehouse/wavehouse/internal/pipes"
	"github.com/wavehouse/wavehouse/internal/strictjson"
)

// operatorViews warns of pipes that pass by what policies say: they see a table
// as the operator does of which a role that may run them sees a part. One that
// says so itself is meant so.
func (k *compiler) operatorViews(s *source) {
	if k.policy == nil {
		return
	}
	tables := slices.Sorted(maps.Keys(k.docs.policies.Tables))
	for i, d := range k.docs.pipes.Pipes {
		pipe, ok := k.pipeSet.Get(d.Name)
		if !ok || d.Policies != "" || pipe.Writes() {
			continue
		}
		for _, table := range tables {
			if roles := k.heldRoles(d.AllowedRoles, table); len(roles) > 0 && pipe.Names(table) {
				s.warn(strictjson.Index("pipes", i), fmt.Sprintf("it reads all of the table %q, of which %s may not see every row and column: want \"policies\": %q, or %q where that is meant",
					table, strings.Join(roles, ", "), pipes.PoliciesCaller, pipes.PoliciesOperator))
			}
		}
	}
}

// heldRoles are those of the roles that see a part of the table alone.
func (k *compiler) heldRoles(roles []string, table string) []string {
	var held []string
	for _, role := range roles {
		if grant, err := k.policy.Select(role, table); err == nil && (grant.Filtered() || !grant.EveryColumn()) {
			held = append(held, role)
		}
	}
	return held
}
