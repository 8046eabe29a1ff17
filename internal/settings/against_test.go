package settings

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

func TestAgainst(t *testing.T) {
	s := Validate(files{
		"roles.json": `{"roles": ["r"]}`,
		"policies.json": `{"tables": {
			"*": {"r": {"select": {"allow_columns": ["anything"]}}},
			"events": {"r": {"select": {"allow_columns": ["*", "paeg"], "deny_columns": ["ip"]}, "insert": {"allow_columns": ["page"], "deny_columns": ["nope"], "check": {"user": {"_eq": "{{ jwt.sub }}"}}}}},
			"logs": {"r": {"select": {"filter": {"page": {"_eq": "x"}, "_or": [{"_not": {"pag": {"_is_null": true}}}]}}}},
			"event": {"r": {"select": {}}}}}`,
		"config.json": `{"dlq": {"tables": {"later": {}, "events": {}}}, "ingest": {"tables": {"a.b": {}}}}`,
	}.dir(t)).Tenants[tenant.Default]
	require.NotNil(t, s)
	live := map[string][]string{"events": {"page", "ip"}, "logs": {"page"}}
	found := Against(s, live)
	assert.Equal(t, []string{
		`policies.json: error: tables.event: there is no table "event"; did you mean "events"?`,
		`policies.json: error: tables.events.r.insert.check.user: table "events" has no column "user"`,
		`policies.json: error: tables.events.r.insert.deny_columns[0]: table "events" has no column "nope"`,
		`policies.json: error: tables.events.r.select.allow_columns[1]: table "events" has no column "paeg"; did you mean "page"?`,
		`policies.json: error: tables.logs.r.select.filter._or[0]._not.pag: table "logs" has no column "pag"; did you mean "page"?`,
	}, errorsOf(found))
	assert.Equal(t, []string{
		`config.json: warning: dlq.tables.later: there is no table "later"`,
		`config.json: warning: ingest.tables["a.b"]: there is no table "a.b"`,
	}, warningsOf(found))

	s.Config.Dedupe = Dedupe{Enabled: true, RequireID: true, IDField: "event_id"}
	found = Against(s, live)
	assert.Contains(t, errorsOf(found), `config.json: error: dedupe: table "events" has no column "event_id": none of its records has an id`)

	on := true
	s.Config.Dedupe = Dedupe{IDField: "event_id", Tables: map[string]DedupeTable{"events": {Enabled: &on}}}
	found = Against(s, live)
	assert.Contains(t, warningsOf(found), `config.json: warning: dedupe.tables.events: table "events" has no column "event_id": none of its records has an id`)
}
