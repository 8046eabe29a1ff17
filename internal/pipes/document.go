// Package pipes is named SQL: statements of the settings that callers run by
// name, with typed parameters that are bound and never spliced.
package pipes

import "time"

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
}

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
	TTL *time.Duration `json:"ttl" unit:"s"`
}
