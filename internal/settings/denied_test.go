package settings

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

func TestDeniedPathsThatNameNothing(t *testing.T) {
	s := Validate(files{
		"roles.json": `{"roles": ["r"]}`,
		"policies.json": `{"tables": {"events": {"r": {
			"select": {"deny_columns": ["attrs.secret", "attrs.a.b", "who.phone", "who[1]", "payload.user.email", "tags[1]", "page.x", "user.mail", "nope.x", "attrs[\"a.b\"]"]},
			"insert": {"deny_columns": ["attrs.secret", "page"]}}}}}`,
	}.dir(t)).Tenants[tenant.Default]
	require.NotNil(t, s)
	types := map[string]string{
		"attrs": "Map(String, String)", "who": "Tuple(name String, mail String)", "payload": "JSON(at DateTime)",
		"tags": "Array(String)", "page": "String", "user": "String", "user.mail": "String",
	}
	const path = "policies.json: warning: tables.events.r."
	assert.Equal(t, []string{
		path + `insert.deny_columns[0]: records are taken by whole columns, so the role may not insert "attrs" at all`,
		path + `select.deny_columns[1]: this names no part of the column "attrs" of type Map(String, String) (a value of type String has no parts), so the role may read nothing of it`,
		path + `select.deny_columns[2]: this names no part of the column "who" of type Tuple(name String, mail String) (there is no such member in Tuple(name String, mail String)), so the role may read nothing of it`,
		path + `select.deny_columns[6]: this names no part of the column "page" of type String (a value of type String has no parts), so the role may read nothing of it`,
		path + `select.deny_columns[7]: this names no part of the column "user" of type String (a value of type String has no parts), so the role may read nothing of it`,
	}, warningsOf(DeniedPaths(s, map[string]map[string]string{"events": types, "other": {"x": "String"}})))

	names := []string{}
	for name := range types {
		names = append(names, name)
	}
	assert.Equal(t, []string{`policies.json: error: tables.events.r.select.deny_columns[8]: table "events" has no column "nope.x"`},
		errorsOf(Against(s, map[string][]string{"events": names})))
}
