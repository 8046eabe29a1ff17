package rehearsal

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/schema"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/strictjson"
)

// Outcome is what became of one test.
type Outcome struct {
	File string `json:"file"`
	Line int    `json:"line"`
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Failures say what is not as expected, and where.
	Failures []string `json:"failures,omitempty"`
}

// Run runs the tests of the suite against the settings.
func (s *Suite) Run(snapshot *settings.Snapshot) []Outcome {
	outcomes := make([]Outcome, 0, len(s.tests))
	for i, t := range s.tests {
		r := &run{test: t, table: s.tables[t.Table], snapshot: snapshot}
		r.role()
		r.selects()
		r.inserts()
		outcomes = append(outcomes, Outcome{
			File: s.File, Line: s.doc.Line(strictjson.Index("tests", i)), Name: t.Name, OK: len(r.failures) == 0, Failures: r.failures,
		})
	}
	return outcomes
}

// run is one test that is run.
type run struct {
	test     testDocument
	table    *schema.Table
	snapshot *settings.Snapshot
	failures []string
}

func (r *run) fail(path, format string, args ...any) {
	r.failures = append(r.failures, path+": "+fmt.Sprintf(format, args...))
}

// role refuses a role that nobody has: it is denied everything, so that a
// misspelled one would pass every test that expects a denial.
func (r *run) role() {
	role := r.test.Role
	if role != "" && !r.snapshot.Policy.IsAdmin(role) && !slices.Contains(r.snapshot.Roles, role) {
		r.fail("role", "%q is not in roles.json", role)
	}
}

func (r *run) selects() {
	want := r.test.Select
	if want == nil {
		return
	}
	got := explainSelect(r.snapshot, Caller{Role: r.test.Role, Claims: r.test.Claims}, r.table)
	r.allowed("select", want.Allowed, got.Allowed, got.Reason)
	r.columns("select.columns", want.Columns, got.Columns)
	r.columns("select.hidden_columns", want.Hidden, got.Hidden)
	if want.MaxRows != nil && *want.MaxRows != got.MaxRows {
		r.fail("select.max_rows", "want %d, not %d", *want.MaxRows, got.MaxRows)
	}
	for _, fn := range slices.Sorted(maps.Keys(want.Aggregations)) {
		path := strictjson.Join("select.aggregations", fn)
		switch allowed := slices.Contains(got.Aggregations, fn); {
		case !slices.Contains(policy.Aggregations(), fn):
			r.fail(path, "there is no such aggregation")
		case allowed != want.Aggregations[fn]:
			r.fail(path, "want %t, not %t", want.Aggregations[fn], allowed)
		}
	}
	if got.Rows.Fault != "" && len(want.Rows) > 0 {
		r.fail("select.rows", "the row filter does not fit the table: %s", got.Rows.Fault)
		return
	}
	for i, row := range want.Rows {
		r.row(strictjson.Index("select.rows", i), row)
	}
}

func (r *run) allowed(path string, want *bool, got bool, reason string) {
	switch {
	case want == nil || *want == got:
	case got:
		r.fail(path+".allowed", "want a denial, but it is allowed")
	default:
		r.fail(path+".allowed", "it is denied: %s", reason)
	}
}

// columns compares sets: an order is the table's and not the policy's.
func (r *run) columns(path string, want, got []string) {
	if want == nil {
		return
	}
	for _, name := range want {
		if !slices.Contains(got, name) {
			r.fail(path, "%q is not among them", name)
		}
	}
	for _, name := range got {
		if !slices.Contains(want, name) {
			r.fail(path, "%q is among them", name)
		}
	}
}

// row asks whether the caller sees a row that is stored as it is written here.
func (r *run) row(path string, want rowTest) {
	visible, err := r.visible(want.Row)
	switch {
	case err != nil:
		r.fail(path, "%v", err)
	case visible && !*want.Visible:
		r.fail(path, "want it hidden, but it is visible")
	case !visible && *want.Visible:
		r.fail(path, "want it visible, but it is hidden")
	}
}

func (r *run) visible(row map[string]any) (bool, error) {
	grant, err := r.snapshot.Policy.Select(r.test.Role, r.table.Name)
	if err != nil {
		return false, nil // the caller may not read the table at all
	}
	stored, err := r.decode(row, record.DecodeOptions{MissingAsZero: true})
	if err != nil {
		return false, fmt.Errorf("the row is not one of the table: %w", err)
	}
	layout, err := record.ParseLayout(stored.Set.Header(), time.UTC)
	if err != nil {
		return false, err
	}
	return grant.Bind(r.test.Claims, r.table.Record).Visible(layout, stored.Row)
}

// decode reads one record of the table.
func (r *run) decode(row map[string]any, o record.DecodeOptions) (record.Record, error) {
	text, err := json.Marshal(row)
	if err != nil {
		return record.Record{}, err
	}
	decoder := r.table.Record.NewDecoder(record.JSON, text, o)
	if !decoder.Next() {
		return record.Record{}, decoder.Err()
	}
	decoded := decoder.Record()
	if decoded.Err != nil {
		return record.Record{}, decoded.Err
	}
	return decoded, nil
}

func (r *run) inserts() {
	want := r.test.Insert
	if want == nil {
		return
	}
	got := explainInsert(r.snapshot, Caller{Role: r.test.Role, Claims: r.test.Claims}, r.table)
	reason := got.Reason
	if reason == "" {
		reason = strings.TrimPrefix(got.Fault+": "+got.Refuses, ": ")
	}
	r.allowed("insert", want.Allowed, got.Allowed, reason)
	r.columns("insert.columns", want.Columns, got.Columns)
	for i, rec := range want.Records {
		r.record(strictjson.Index("insert.records", i), rec)
	}
}

// record asks whether the gate would take a record from the caller.
func (r *run) record(path string, want recordTest) {
	stored, code, err := r.insert(want.Record)
	switch {
	case err != nil && *want.Accepted:
		r.fail(path, "want it accepted, but it is refused: %v", err)
	case err != nil && want.Code != "" && want.Code != code:
		r.fail(path, "want %s, but it is %s: %v", want.Code, code, err)
	case err == nil && !*want.Accepted:
		r.fail(path, "want it refused, but it is accepted")
	case err == nil && want.Stored != nil:
		r.stored(path+".stored", want.Stored, stored)
	}
}

func (r *run) insert(row map[string]any) (stored map[string]any, code string, err error) {
	grant, err := r.snapshot.Policy.Insert(r.test.Role, r.table.Name)
	if err != nil {
		return nil, "auth.forbidden", err
	}
	bound := grant.Bind(r.test.Claims, r.table.Record)
	if bound.Refuse != nil {
		return nil, bound.Refuse.Code, bound.Refuse
	}
	rules := r.snapshot.Config.IngestFor(r.table.Name)
	decoded, err := r.decode(row, record.DecodeOptions{
		MissingAsZero: rules.MissingAsZero, CutTimes: rules.Times == settings.TimesTruncate, Checks: bound.Checks,
		UnknownFields: rules.Unknown(), CollectInto: rules.CollectInto,
		Allow: func(column int) bool { return grant.Allows(r.table.Columns[column].Name) },
	})
	if refusal, ok := err.(*record.Error); ok { //nolint:errorlint // decode wraps nothing
		return nil, refusal.Code, err
	}
	if err != nil {
		return nil, "", err
	}
	stored, err = render(decoded)
	return stored, "", err
}

// render is a record as a query would return it.
func render(decoded record.Record) (map[string]any, error) {
	layout, err := record.ParseLayout(decoded.Set.Header(), time.UTC)
	if err != nil {
		return nil, err
	}
	text, err := layout.AppendObject(nil, decoded.Row, nil, record.RenderOptions{})
	if err != nil {
		return nil, err
	}
	return object(text)
}

func object(text []byte) (map[string]any, error) {
	var o map[string]any
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.UseNumber()
	err := decoder.Decode(&o)
	return o, err
}

// stored compares what is expected of a stored record; columns that are not
// named do not matter.
func (r *run) stored(path string, want, got map[string]any) {
	for _, column := range slices.Sorted(maps.Keys(want)) {
		if value, has := got[column]; !has {
			r.fail(strictjson.Join(path, column), "the record does not carry it")
		} else if !reflect.DeepEqual(value, want[column]) {
			r.fail(strictjson.Join(path, column), "want %v, not %v", want[column], value)
		}
	}
}
