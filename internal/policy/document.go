package policy

import (
	"encoding/json"
	"time"

	"github.com/wavehouse/wavehouse/internal/spec"
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
	Filter              json.RawMessage `json:"filter"`
	AllowedAggregations []string        `json:"allowed_aggregations"`
	DeniedAggregations  []string        `json:"denied_aggregations"`
	// MaxRows is the most rows of one answer; zero or absent is no cap.
	MaxRows int `json:"max_rows"`
	// MaxExecutionTime caps the run time of one query; zero or absent is no cap.
	MaxExecutionTime time.Duration `json:"max_execution_time"`
	// MaxRowsToRead caps what one query scans; zero or absent is no cap.
	MaxRowsToRead int64 `json:"max_rows_to_read"`
	// MaxMemoryUsage caps one query's memory, in bytes; zero or absent is no cap.
	MaxMemoryUsage int64 `json:"max_memory_usage"`
	// ShowCost tells the role what its answers cost although that counts rows
	// which it may not read.
	ShowCost bool `json:"show_cost"`
}

// InsertDocument is what a role may insert into a table.
type InsertDocument struct {
	AllowColumns []string        `json:"allow_columns"`
	DenyColumns  []string        `json:"deny_columns"`
	Check        json.RawMessage `json:"check"`
}

// Fields describes the keys of policies.json, and bounds them.
func Fields() spec.Of[Document] {
	const entry = "tables.*.*."
	return []spec.Field{
		{Key: "default_role", Doc: "The role of requests without one; without it they are denied."},
		{Key: "admin_role", Doc: "A role that may do everything; `admin` when left out."},
		{Key: "tables", Doc: "What each role may do, by table; `*` is every table without an entry of its own."},
		{Key: entry + "select", Doc: "What the role may read of the table."},
		{Key: entry + "select.allow_columns", Doc: "The columns that it may read; left out, empty or `*` is all."},
		{Key: entry + "select.deny_columns", Doc: "Columns, and parts of columns (`attrs.secret`), that are taken away again."},
		{Key: entry + "select.filter", Object: true, Doc: "Which rows it may read."},
		{Key: entry + "select.allowed_aggregations", Doc: "The aggregations that it may ask for; left out is all."},
		{Key: entry + "select.denied_aggregations", Doc: "Aggregations that are taken away again."},
		{Key: entry + "select.max_rows", Min: "0", Doc: "The most rows of one answer; 0 is no bound of its own."},
		{Key: entry + "select.max_execution_time", Unit: "s", Doc: "How long one query may run."},
		{Key: entry + "select.max_rows_to_read", Min: "0", Doc: "The most rows that one query may scan."},
		{Key: entry + "select.max_memory_usage", Unit: "B", Doc: "The most memory that one query may take."},
		{Key: entry + "select.show_cost", Doc: "Whether the role is told what an answer cost and how fresh it is although it has a row filter: what is counted includes rows that it may not read. A role that has it wherever it may read is also told how much of the tenant's limits is used."},
		{Key: entry + "insert", Doc: "What the role may insert into the table."},
		{Key: entry + "insert.allow_columns", Doc: "The columns that it may set; left out, empty or `*` is all."},
		{Key: entry + "insert.deny_columns", Doc: "Columns that are taken away again."},
		{Key: entry + "insert.check", Object: true, Doc: "What its records must hold."},
	}
}
