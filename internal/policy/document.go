package policy

import (
	"encoding/json"
	"time"
)

// DefaultAdminRole is the admin role of a document that names none.
const DefaultAdminRole = "admin"

// AllTables is the table name whose entries hold for every table without an
// entry of its own, and the column name that stands for every column.
const AllTables = "*"

// Document is policies.json as written. A document without any key is no
// policy: everyone is denied, the admin role included.
type Document struct {
	DefaultRole *string                  `json:"default_role"`
	AdminRole   *string                  `json:"admin_role"`
	Tables      map[string]TableDocument `json:"tables"`
}

// TableDocument holds the entries of one table by role.
type TableDocument map[string]EntryDocument

// EntryDocument is what one role may do with one table. A missing half grants
// nothing.
type EntryDocument struct {
	Select *SelectDocument `json:"select"`
	Insert *InsertDocument `json:"insert"`
}

// SelectDocument is what a role may read of a table.
type SelectDocument struct {
	AllowColumns        []string        `json:"allow_columns"`
	DenyColumns         []string        `json:"deny_columns"`
	Filter              json.RawMessage `json:"filter" form:"object"`
	AllowedAggregations []string        `json:"allowed_aggregations"`
	DeniedAggregations  []string        `json:"denied_aggregations"`
	// MaxRows is the most rows of one answer; zero or absent is no cap.
	MaxRows int `json:"max_rows"`
	// MaxExecutionTime caps the run time of one query; a number is seconds.
	MaxExecutionTime time.Duration `json:"max_execution_time" unit:"s"`
	// MaxRowsToRead caps what one query scans; zero or absent is no cap.
	MaxRowsToRead int64 `json:"max_rows_to_read"`
	// MaxMemoryUsage caps one query's memory; a number is bytes.
	MaxMemoryUsage int64 `json:"max_memory_usage" size:"B"`
}

// InsertDocument is what a role may insert into a table.
type InsertDocument struct {
	AllowColumns []string        `json:"allow_columns"`
	DenyColumns  []string        `json:"deny_columns"`
	Check        json.RawMessage `json:"check" form:"object"`
}
