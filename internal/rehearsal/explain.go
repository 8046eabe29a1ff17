package rehearsal

import (
	"encoding/json"

	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/query"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/schema"
	"github.com/wavehouse/wavehouse/internal/settings"
)

// Caller is whose rights are looked at.
type Caller struct {
	// Role is what the token names, "" without one.
	Role   string
	Claims map[string]any
}

// Explanation is what a caller may do with a table.
type Explanation struct {
	Tenant string `json:"tenant"`
	Table  string `json:"table"`
	// Role is the one that holds: the caller's, or the default role.
	Role    string `json:"role"`
	Default bool   `json:"default_role"`
	Admin   bool   `json:"admin"`
	Select  Select `json:"select"`
	Insert  Insert `json:"insert"`
}

// Select is what a caller may read of the table.
type Select struct {
	Allowed bool `json:"allowed"`
	// Reason says why not, "" when it is allowed.
	Reason  string   `json:"reason,omitempty"`
	Columns []string `json:"columns"`
	Hidden  []string `json:"hidden_columns"`
	// MaxRows is the most rows of an answer; 0 is no cap. It is the least of
	// the role's and the tenant's.
	MaxRows      int      `json:"max_rows"`
	Aggregations []string `json:"aggregations"`
	// Settings are the role's resource caps, as ClickHouse gets them.
	Settings map[string]string `json:"settings"`
	Rows     Rows              `json:"rows"`
}

// What a row rule comes to.
const (
	RowsAll  = "all"
	RowsNone = "none"
	RowsSome = "some"
)

// Rows are those of the table that a caller sees.
type Rows struct {
	// Show is RowsAll, RowsNone or RowsSome.
	Show string `json:"show"`
	// SQL is the condition of RowsSome, Parameters what is bound to it.
	SQL        string            `json:"sql,omitempty"`
	Parameters map[string]string `json:"parameters,omitempty"`
	// Lists are what travels as tables beside it, by the tables' names.
	Lists map[string][]json.RawMessage `json:"lists,omitempty"`
	// Claim is the claim that is missing or does not fit, when none show.
	Claim string `json:"unresolved_claim,omitempty"`
	// Fault says why the rule does not fit the table.
	Fault string `json:"fault,omitempty"`
}

// Insert is what a caller may insert into the table.
type Insert struct {
	Allowed bool     `json:"allowed"`
	Reason  string   `json:"reason,omitempty"`
	Columns []string `json:"columns"`
	Checks  []Check  `json:"checks"`
	// Refuses is what every record is told, "" when some are accepted.
	Refuses string `json:"refuses,omitempty"`
	Fault   string `json:"fault,omitempty"`
}

// Check is a column whose values the policy prescribes.
type Check struct {
	Column  string            `json:"column"`
	Allowed []json.RawMessage `json:"allowed"`
	// Stamps: a record without the column gets the value.
	Stamps bool `json:"stamps"`
}

// Explain says what the caller may do with the table.
func Explain(s *settings.Snapshot, caller Caller, table *schema.Table) Explanation {
	role, _ := s.Policy.Role(caller.Role)
	return Explanation{
		Tenant: s.Tenant.String(), Table: table.Name, Role: role,
		Default: caller.Role == "" && role != "", Admin: s.Policy.IsAdmin(role),
		Select: explainSelect(s, caller, table), Insert: explainInsert(s, caller, table),
	}
}

func explainSelect(s *settings.Snapshot, caller Caller, table *schema.Table) Select {
	result := Select{Columns: []string{}, Hidden: []string{}, Aggregations: []string{}, Settings: map[string]string{}}
	grant, err := s.Policy.Select(caller.Role, table.Name)
	if err != nil {
		result.Reason, result.Rows.Show = err.Error(), RowsNone
		return result
	}
	result.Columns = readable(table, grant.Allows)
	result.Hidden = readable(table, func(name string) bool { return !grant.Allows(name) })
	for _, fn := range policy.Aggregations() {
		if grant.AllowsAggregation(fn) {
			result.Aggregations = append(result.Aggregations, fn)
		}
	}
	result.Settings = grant.Settings()
	result.MaxRows = leastCap(grant.MaxRows(), s.Config.Query.DefaultMaxRows)
	// A grant that names no column, on a table of which none is known, is one
	// for every column there is.
	result.Allowed = len(result.Columns) > 0 || len(result.Hidden) == 0
	if !result.Allowed {
		result.Reason = "the role may read no column of this table"
	}
	result.Rows = explainRows(grant.Bind(caller.Claims, table.Record), table)
	return result
}

func leastCap(caps ...int) int {
	least := 0
	for _, n := range caps {
		if n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

func explainRows(grant *policy.BoundSelect, table *schema.Table) Rows {
	if fault := grant.Fault(); fault != nil {
		return Rows{Show: RowsNone, Fault: fault.Error()}
	}
	predicate, none := grant.Rows()
	switch {
	case none:
		return Rows{Show: RowsNone, Claim: grant.Unresolved()}
	case predicate == nil:
		return Rows{Show: RowsAll}
	}
	sql, parameters, err := query.RowRule(table, grant)
	if err != nil {
		return Rows{Show: RowsNone, Fault: err.Error()}
	}
	return Rows{Show: RowsSome, SQL: sql, Parameters: parameters, Lists: listsOf(sql, predicate)}
}

func explainInsert(s *settings.Snapshot, caller Caller, table *schema.Table) Insert {
	result := Insert{Columns: []string{}, Checks: []Check{}}
	grant, err := s.Policy.Insert(caller.Role, table.Name)
	if err != nil {
		result.Reason = err.Error()
		return result
	}
	result.Columns = insertable(table, grant.Allows)
	bound := grant.Bind(caller.Claims, table.Record)
	if fault := bound.Fault(); fault != nil {
		result.Fault = fault.Error()
	}
	if bound.Refuse != nil {
		result.Refuses = bound.Refuse.Message
	} else {
		for _, check := range bound.Checks {
			result.Checks = append(result.Checks, explainCheck(check, table))
		}
	}
	result.Allowed = bound.Refuse == nil
	return result
}

func explainCheck(check record.Check, table *schema.Table) Check {
	shown := Check{Column: table.Columns[check.Column].Name, Allowed: []json.RawMessage{}, Stamps: check.Stamp}
	codec := table.Record.Codec(check.Column)
	for _, value := range check.Allowed {
		text, _, err := codec.RenderJSON(nil, value, record.RenderOptions{})
		if err != nil {
			text = []byte("null")
		}
		shown.Allowed = append(shown.Allowed, text)
	}
	return shown
}
