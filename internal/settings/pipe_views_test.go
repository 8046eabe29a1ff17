package settings

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A pipe that reads past the policies of who may run it is told of, unless it says
// that it is meant so.
func TestPipesThatPassByPoliciesAreToldOf(t *testing.T) {
	settings := func(pipe string) []string {
		r := Validate(files{
			"roles.json": `{"roles": ["viewer", "reader", "all"]}`,
			"policies.json": `{"tables": {"events": {"viewer": {"select": {"filter": {"org": {"_eq": "a"}}}}, "reader": {"select": {"deny_columns": ["secret"]}}, "all": {"select": {}}},
				"other": {"viewer": {"select": {"filter": {"org": {"_eq": "a"}}}}}}}`,
			"pipes.json": `{"pipes": [` + pipe + `]}`,
		}.dir(t))
		assert.True(t, r.OK(), "%v", r.Findings)
		return warningsOf(r.Findings)
	}
	const sql = `"sql": "SELECT count() FROM events"`
	assert.Equal(t, []string{`pipes.json:1: warning: pipes[0]: it reads all of the table "events", of which viewer, reader may not see every row and column: want "policies": "caller", or "operator" where that is meant`},
		settings(`{"name": "p", "allowed_roles": ["viewer", "reader", "all"], `+sql+`}`))
	assert.Len(t, settings(`{"name": "p", "allowed_roles": ["viewer"], "sql": "SELECT * FROM totals", "reads": ["events"]}`), 1)
	for _, silent := range []string{
		`{"name": "p", "allowed_roles": ["all"], ` + sql + `}`,
		`{"name": "p", "allowed_roles": ["viewer"], "policies": "operator", ` + sql + `}`,
		`{"name": "p", "allowed_roles": ["viewer"], "policies": "caller", ` + sql + `}`,
		`{"name": "p", "allowed_roles": ["viewer"], "sql": "INSERT INTO events SELECT 1"}`,
		`{"name": "p", "allowed_roles": ["viewer"], "sql": "SELECT 'events'"}`,
	} {
		assert.Empty(t, settings(silent), silent)
	}
}
