// Package pipes is named SQL: statements of the settings that callers run by
// name, with typed parameters that are bound and never spliced.
package pipes

import (
	"time"

	"github.com/wavehouse/wavehouse/internal/spec"
)

// Document is pipes.json as written.
type Document struct {
	Pipes []Definition `json:"pipes"`
}

// Definition is one pipe as written.
type Definition struct {
	Name         string      `json:"name"`
	Description  string      `json:"description"`
	SQL          string      `json:"sql"`
	Parameters   []Parameter `json:"parameters"`
	AllowedRoles []string    `json:"allowed_roles"`
	Cache        CacheRule   `json:"cache"`
	// Reads names the tables that the answer depends on, as "table" or
	// "database.table"; without it they are looked for in the statement.
	Reads []string `json:"reads"`
	// Policies says how the statement sees tables: as PoliciesOperator, which is
	// what an empty one means, or as PoliciesCaller.
	Policies string `json:"policies"`
}

// How the statement of a pipe sees tables.
const (
	// PoliciesOperator: as the tenant's ClickHouse user does.
	PoliciesOperator = "operator"
	// PoliciesCaller: each through its caller's grant on it.
	PoliciesCaller = "caller"
)

// Parameter is one declared parameter.
type Parameter struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Required    bool   `json:"required"`
	Default     any    `json:"default"`
	Description string `json:"description"`
}

// CacheRule is how long answers are kept.
type CacheRule struct {
	// TTL bounds it; absent leaves it to the server, zero keeps nothing.
	TTL *time.Duration `json:"ttl"`
}

// Fields describes the keys of pipes.json, and bounds them.
func Fields() spec.Of[Document] {
	const pipe, parameter = "pipes[].", "pipes[].parameters[]."
	return []spec.Field{
		{Key: "pipes", Max: "1000", Doc: "Named SQL statements with parameters."},
		{Key: pipe + "name", Max: "128", Doc: "The name in the path of its route."},
		{Key: pipe + "description", Doc: "For people."},
		{Key: pipe + "sql", Max: "65536", Doc: "One statement; `{{name}}` stands for a parameter."},
		{Key: pipe + "parameters", Max: "100", Doc: "What a caller gives."},
		{Key: parameter + "name", Max: "128", Doc: "The name in the statement and in the request."},
		{Key: parameter + "type", Doc: "What a value must be."},
		{Key: parameter + "required", Doc: "Whether a request without it is refused."},
		{Key: parameter + "default", Doc: "The value when a request has none."},
		{Key: parameter + "description", Doc: "For people."},
		{Key: pipe + "allowed_roles", Doc: "The roles that may run it, besides the admin role."},
		{Key: pipe + "cache", Doc: "How long answers are kept."},
		{Key: pipe + "cache.ttl", Unit: "s", Doc: "The longest; left out is up to the server, 0 keeps nothing."},
		{Key: pipe + "policies", OneOf: []string{PoliciesOperator, PoliciesCaller},
			Doc: "How it sees tables: as the tenant's ClickHouse user does, which is what leaving it out means, or each through the caller's grant on it."},
		{Key: pipe + "reads", Max: "100", Doc: "The tables that the answer depends on, where the statement does not show them."},
	}
}
