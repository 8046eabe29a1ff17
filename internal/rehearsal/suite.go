package rehearsal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/wavehouse/wavehouse/internal/schema"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/strictjson"
)

// maxSuiteBytes bounds a file of tests.
const maxSuiteBytes = 4 << 20

// suiteDocument is a file of policy tests.
type suiteDocument struct {
	Tables map[string]tableDocument `json:"tables"`
	Tests  []testDocument           `json:"tests"`
}

type tableDocument struct {
	// Name and Engine are there in what /v1/ops/schema answers.
	Name    string   `json:"name"`
	Engine  string   `json:"engine"`
	Columns []Column `json:"columns"`
}

// testDocument is a caller, a table, and what the caller should be able to do.
type testDocument struct {
	Name   string         `json:"name"`
	Role   string         `json:"role"`
	Claims map[string]any `json:"claims"`
	Table  string         `json:"table"`
	Select *selectTest    `json:"select"`
	Insert *insertTest    `json:"insert"`
}

// selectTest says what the caller reads; what is left out is not looked at.
type selectTest struct {
	Allowed      *bool           `json:"allowed"`
	Columns      []string        `json:"columns"` // all that it may read
	Hidden       []string        `json:"hidden_columns"`
	MaxRows      *int            `json:"max_rows"`
	Aggregations map[string]bool `json:"aggregations"`
	Rows         []rowTest       `json:"rows"`
}

type rowTest struct {
	Row     map[string]any `json:"row"`
	Visible *bool          `json:"visible"`
}

// insertTest says what the caller inserts.
type insertTest struct {
	Allowed *bool        `json:"allowed"`
	Columns []string     `json:"columns"`
	Records []recordTest `json:"records"`
}

type recordTest struct {
	Record   map[string]any `json:"record"`
	Accepted *bool          `json:"accepted"`
	Code     string         `json:"code"`   // of the refusal
	Stored   map[string]any `json:"stored"` // what an accepted record becomes
}

// Suite is a file of tests that can be run.
type Suite struct {
	File   string
	tables map[string]*schema.Table
	tests  []testDocument
	doc    *strictjson.Document
}

// Files returns the files of tests in a settings directory, sorted.
func Files(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if match, _ := filepath.Match("[^.]*"+settings.PolicyTestSuffix, e.Name()); match && !e.IsDir() {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, nil
}

// Load reads a file of tests. The findings say what is wrong with it; the
// suite is nil when there is one.
func Load(path string) (*Suite, []settings.Finding, error) {
	data, err := settings.ReadFile(path, maxSuiteBytes)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	s := &Suite{File: filepath.Base(path), tables: map[string]*schema.Table{}}
	var document suiteDocument
	doc, faults := strictjson.Parse(data)
	faults = append(faults, doc.Decode(&document, strictjson.Rules{Annotated: true})...)
	s.doc, s.tests = doc, document.Tests
	if len(faults) == 0 {
		faults = s.check(&document)
	}
	if len(faults) > 0 {
		return nil, settings.FromFaults(settings.SeverityError, s.File, doc, faults), nil
	}
	return s, nil, nil
}

// check refuses what could not fail: a test that expects nothing passes
// whatever the policy says.
func (s *Suite) check(d *suiteDocument) []strictjson.Fault {
	var faults []strictjson.Fault
	fault := func(path, format string, args ...any) {
		faults = append(faults, strictjson.Fault{Path: path, Message: fmt.Sprintf(format, args...)})
	}
	for name, table := range d.Tables {
		path := strictjson.Join("tables", name)
		if err := checkColumns(table.Columns); err != nil {
			fault(path+".columns", "%v", err)
		}
		s.tables[name] = TableOf(name, table.Columns)
	}
	if len(d.Tests) == 0 {
		fault("tests", "there are no tests")
	}
	for i, t := range d.Tests {
		path := strictjson.Index("tests", i)
		if t.Name == "" {
			fault(path+".name", "a test must have a name")
		}
		if _, known := s.tables[t.Table]; !known {
			fault(path+".table", "the table %q is not among the file's tables", t.Table)
		}
		checkExpectations(path, t, fault)
	}
	return faults
}

func checkColumns(columns []Column) error {
	if len(columns) == 0 {
		return errors.New("a table has columns, each with a name and a type")
	}
	var seen []string
	for _, c := range columns {
		if c.Name == "" || slices.Contains(seen, c.Name) {
			return fmt.Errorf("the column name %q is empty or there twice", c.Name)
		}
		seen = append(seen, c.Name)
		if err := checkType(c.Type); err != nil {
			return fmt.Errorf("column %q: %w", c.Name, err)
		}
	}
	return nil
}

func checkExpectations(path string, t testDocument, fault func(path, format string, args ...any)) {
	if t.Select == nil && t.Insert == nil {
		fault(path, "the test expects nothing: it has neither select nor insert")
	}
	if s := t.Select; s != nil {
		if s.Allowed == nil && s.Columns == nil && s.Hidden == nil && s.MaxRows == nil && len(s.Aggregations) == 0 && len(s.Rows) == 0 {
			fault(path+".select", "nothing is expected here")
		}
		for i, row := range s.Rows {
			if row.Visible == nil || row.Row == nil {
				fault(strictjson.Index(path+".select.rows", i), `want {"row": {…}, "visible": true or false}`)
			}
		}
	}
	if t.Insert == nil {
		return
	}
	if t.Insert.Allowed == nil && t.Insert.Columns == nil && len(t.Insert.Records) == 0 {
		fault(path+".insert", "nothing is expected here")
	}
	for i, r := range t.Insert.Records {
		at := strictjson.Index(path+".insert.records", i)
		switch {
		case r.Accepted == nil || r.Record == nil:
			fault(at, `want {"record": {…}, "accepted": true or false}`)
		case *r.Accepted && r.Code != "":
			fault(at, "a record that is accepted has no code")
		case !*r.Accepted && r.Stored != nil:
			fault(at, "a record that is refused is not stored")
		}
	}
}

// Table returns a table that the file describes.
func (s *Suite) Table(name string) (*schema.Table, bool) {
	table, ok := s.tables[name]
	return table, ok
}
