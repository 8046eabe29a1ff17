// Package codegen writes the types that a client needs of a server's tables and
// pipes, as one role sees them: TypeScript and Go.
package codegen

import (
	"context"
	"fmt"
	"slices"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/pipes"
	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/schema"
	"github.com/wavehouse/wavehouse/internal/settings"
)

// Shape is what a role may read, insert and run.
type Shape struct {
	Role   string  `json:"role"`
	Tables []Table `json:"tables"`
	Pipes  []Pipe  `json:"pipes"`
}

// Table has the columns that the role may read, and those it may insert; a list
// is empty when it may not.
type Table struct {
	Name   string  `json:"name"`
	Row    []Field `json:"row"`
	Insert []Field `json:"insert"`
}

// Field is a column, or a parameter of a pipe.
type Field struct {
	Name string `json:"name"`
	// Type is ClickHouse's, a parameter's is the pipe's.
	Type     string `json:"type"`
	Optional bool   `json:"optional,omitempty"`
}

// Pipe is a pipe that the role may run. Row is nil when ClickHouse could not say
// what it answers.
type Pipe struct {
	Name       string  `json:"name"`
	Parameters []Field `json:"parameters"`
	Row        []Field `json:"row"`
}

// Of reads a role's shape off the settings and the tables. describe asks
// ClickHouse what a statement answers.
func Of(snapshot *settings.Snapshot, role string, catalogue *schema.Catalogue, describe func(statement string) ([]Field, error)) Shape {
	shape := Shape{Role: role, Tables: []Table{}, Pipes: []Pipe{}}
	for _, table := range catalogue.Tables() {
		if t := tableOf(snapshot.Policy, role, table); len(t.Row)+len(t.Insert) > 0 {
			shape.Tables = append(shape.Tables, t)
		}
	}
	for _, pipe := range snapshot.Pipes.All() {
		if pipe.AllowsRole(role) || snapshot.Policy.IsAdmin(role) {
			shape.Pipes = append(shape.Pipes, pipeOf(pipe, describe))
		}
	}
	return shape
}

func tableOf(p *policy.Policy, role string, table *schema.Table) Table {
	t := Table{Name: table.Name, Row: []Field{}, Insert: []Field{}}
	reads, noReads := p.Select(role, table.Name)
	inserts, noInserts := p.Insert(role, table.Name)
	for i, column := range table.Columns {
		field := Field{Name: column.Name, Type: column.Type}
		if noReads == nil && reads.Allows(column.Name) && column.DefaultKind != record.DefaultEphemeral {
			t.Row = append(t.Row, field)
		}
		if noInserts == nil && inserts.Allows(column.Name) && !table.Record.Computed(i) {
			field.Optional = !table.Record.Required(i) || inserts.Stamps(column.Name)
			t.Insert = append(t.Insert, field)
		}
	}
	return t
}

func pipeOf(pipe *pipes.Pipe, describe func(statement string) ([]Field, error)) Pipe {
	p := Pipe{Name: pipe.Name(), Parameters: []Field{}}
	for _, q := range pipe.Definition().Parameters {
		p.Parameters = append(p.Parameters, Field{Name: q.Name, Type: q.Type, Optional: !q.Required})
	}
	if !pipe.Writes() {
		// What a statement answers may hang on values that nobody has here: then
		// its rows are not typed.
		p.Row, _ = describe(pipe.Example())
	}
	return p
}

// Describer asks ClickHouse for the columns of what statements answer.
func Describer(ctx context.Context, pool *clickhouse.Pool) func(statement string) ([]Field, error) {
	return func(statement string) ([]Field, error) {
		fields := []Field{}
		sql := "DESCRIBE TABLE (\n" + statement + "\n) SETTINGS describe_compact_output = 1"
		err := pool.EachRow(ctx, sql, 2, func(row []string) error {
			fields = append(fields, Field{Name: row[0], Type: row[1]})
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("describe a pipe's answer: %w", err)
		}
		return fields, nil
	}
}

// clash says why names of the shape cannot stand beside each other once they are
// identifiers; nil when they can.
func (s Shape) clash(identifier func(string) string) error {
	taken := map[string]string{}
	names := make([]string, 0, len(s.Tables)+len(s.Pipes))
	for _, t := range s.Tables {
		names = append(names, t.Name)
	}
	for _, p := range s.Pipes {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		id := identifier(name)
		if other, ok := taken[id]; ok {
			return fmt.Errorf("%q and %q are both %s", other, name, id)
		}
		taken[id] = name
	}
	return nil
}
