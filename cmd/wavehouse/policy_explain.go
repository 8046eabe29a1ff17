package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wavehouse/wavehouse/internal/app"
	"github.com/wavehouse/wavehouse/internal/rehearsal"
	"github.com/wavehouse/wavehouse/internal/schema"
	"github.com/wavehouse/wavehouse/internal/settings"
)

func newPolicyExplain(t *terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain --table <table> [--role <role>] [--claims <json>]",
		Short: "Show what a caller may do with a table",
		Long: `Shows the columns, limits and aggregations of a caller's queries, the SQL
condition that its row filter adds to them with the values bound to it, and what
it may insert.

The condition depends on the types of the columns. They are taken from the
ClickHouse at --against, else from --column, else from the policy tests beside
the settings, else they are assumed from the values of the policy and the
claims; the answer says which.`,
		Example: `  wavehouse policy explain --dir ./settings --role viewer --claims '{"org":"birch"}' --table events
  wavehouse policy explain --dir ./settings --table events        # a caller without a token
  wavehouse policy explain --dir ./settings --role viewer --table events --column 'org String' --column 'n Int64'
  wavehouse policy explain --dir ./settings --role viewer --table events --against localhost:8123 --format json`,
		Args: cobra.NoArgs,
	}
	flags := addPolicyFlags(cmd)
	o := explainOptions{flags: flags}
	cmd.Flags().StringVar(&o.role, "role", "", "the role in the caller's token; a caller without one has the default role")
	cmd.Flags().StringVar(&o.claims, "claims", "{}", "the claims of the caller's token, a JSON object")
	cmd.Flags().StringVar(&o.table, "table", "", "the table")
	cmd.Flags().StringVar(&o.against, "against", "", "take the columns from the ClickHouse at this host, or host:port with the port of clickhouse.protocol")
	cmd.Flags().StringArrayVar(&o.columns, "column", nil, "a column of the table, like 'score Int64'; repeat it for each")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return explain(cmd.Context(), t, o) }
	return cmd
}

type explainOptions struct {
	flags                        policyFlags
	role, claims, table, against string
	columns                      []string
}

// explained is an explanation and where its column types come from.
type explained struct {
	rehearsal.Explanation
	Types string `json:"column_types"`
}

func explain(ctx context.Context, t *terminal, o explainOptions) error {
	if o.table == "" {
		return &usageError{errors.New("name a table with --table")}
	}
	claims, err := parseClaims(o.claims)
	if err != nil {
		return err
	}
	dir, snapshot, err := o.flags.snapshot(t)
	if err != nil {
		return err
	}
	table, types, err := o.findTable(ctx, t, dir, snapshot, claims)
	if err != nil {
		return err
	}
	answer := explained{rehearsal.Explain(snapshot, rehearsal.Caller{Role: o.role, Claims: claims}, table), types}
	if *o.flags.asJSON {
		return t.json(answer)
	}
	if o.role != "" && !answer.Admin && !slices.Contains(snapshot.Roles, o.role) {
		t.sayf("%s the role %q is not in roles.json", t.yellow("warning:"), o.role)
	}
	t.explain(answer)
	return nil
}

// parseClaims keeps numbers as they are written, as tokens do.
func parseClaims(text string) (map[string]any, error) {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var claims map[string]any
	err := decoder.Decode(&claims)
	if err == nil {
		if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is more behind the object")
		}
	}
	if err != nil || claims == nil {
		return nil, &usageError{fmt.Errorf("--claims: want a JSON object, like '{\"org\":\"birch\"}': %w", cmp.Or(err, errors.New("it is null")))}
	}
	return claims, nil
}

// findTable finds the table's columns, and says where.
func (o explainOptions) findTable(
	ctx context.Context, t *terminal, dir string, snapshot *settings.Snapshot, claims map[string]any,
) (table *schema.Table, types string, err error) {
	switch {
	case o.against != "" && len(o.columns) > 0:
		return nil, "", &usageError{errors.New("--against and --column exclude each other")}
	case o.against != "":
		password, err := passwords(t)
		if err != nil {
			return nil, "", err
		}
		catalogue, err := app.Discover(ctx, snapshot, o.against, password(snapshot.Tenant))
		if err != nil {
			return nil, "", fmt.Errorf("read the tables of %s: %w", o.against, err)
		}
		table, known := catalogue.Table(o.table)
		if !known {
			return nil, "", fmt.Errorf("%s has no table %q", o.against, o.table)
		}
		return table, "those of ClickHouse at " + o.against, nil
	case len(o.columns) > 0:
		var columns []rehearsal.Column
		for _, text := range o.columns {
			column, err := rehearsal.ParseColumn(text)
			if err != nil {
				return nil, "", &usageError{fmt.Errorf("--column: %w", err)}
			}
			columns = append(columns, column)
		}
		return rehearsal.TableOf(o.table, columns), "those of --column", nil
	}
	if table, file := described(dir, o.table); table != nil {
		return table, "those of " + file, nil
	}
	columns := rehearsal.AssumeTable(snapshot.PolicyDocument(), o.table, claims)
	return rehearsal.TableOf(o.table, columns), "assumed from the policy and the claims; --against takes those of ClickHouse", nil
}

// described looks for the table in the policy tests beside the settings. Tests
// that cannot be read are for wavehouse policy test to complain about.
func described(dir, name string) (table *schema.Table, file string) {
	files, err := rehearsal.Files(dir)
	if err != nil {
		return nil, ""
	}
	for _, file := range files {
		suite, _, err := rehearsal.Load(file)
		if err != nil || suite == nil {
			continue
		}
		if table, ok := suite.Table(name); ok {
			return table, suite.File
		}
	}
	return nil, ""
}

func (t *terminal) explain(e explained) {
	line := func(name, format string, args ...any) {
		t.printf("%-16s%s\n", name, fmt.Sprintf(format, args...))
	}
	line("tenant", "%s", e.Tenant)
	line("table", "%s", e.Table)
	role := e.Role
	switch {
	case role == "":
		role = "(none)"
	case e.Admin:
		role += " (the admin role: it may do everything)"
	case e.Default:
		role += " (the default role)"
	}
	line("role", "%s", role)
	line("column types", "%s", e.Types)
	t.printf("\n")
	printSelect(line, e.Select)
	t.printf("\n")
	printInsert(line, e.Insert)
}

type printLine func(name, format string, args ...any)

func printSelect(line printLine, s rehearsal.Select) {
	if !s.Allowed {
		line("select", "denied: %s", s.Reason)
		return
	}
	line("select", "allowed")
	line("  columns", "%s", columns(s.Columns, s.Hidden))
	line("  hidden", "%s", names(s.Hidden))
	line("  rows", "%s", rows(s.Rows))
	if s.Rows.Show == rehearsal.RowsSome {
		line("  where", "%s", s.Rows.SQL)
		for _, name := range slices.Sorted(maps.Keys(s.Rows.Parameters)) {
			line("", "%s = %s", name, s.Rows.Parameters[name])
		}
		for _, name := range slices.Sorted(maps.Keys(s.Rows.Lists)) {
			line("", "%s = %s", name, list(s.Rows.Lists[name]))
		}
	}
	line("  max rows", "%s", limit(s.MaxRows))
	line("  aggregations", "%s", names(s.Aggregations))
	for _, name := range slices.Sorted(maps.Keys(s.Settings)) {
		line("  setting", "%s = %s", name, s.Settings[name])
	}
}

func rows(r rehearsal.Rows) string {
	switch {
	case r.Fault != "":
		return "none: the row filter does not fit the table: " + r.Fault
	case r.Claim != "":
		return fmt.Sprintf("none: the row filter needs the claim %q, which is missing or does not fit the column", r.Claim)
	case r.Show == rehearsal.RowsNone:
		return "none"
	case r.Show == rehearsal.RowsAll:
		return "all: there is no row filter"
	}
	return "those that fulfil"
}

func printInsert(line printLine, i rehearsal.Insert) {
	switch {
	case i.Reason != "":
		line("insert", "denied: %s", i.Reason)
		return
	case i.Fault != "":
		line("insert", "every record is refused: the check does not fit the table: %s", i.Fault)
	case i.Refuses != "":
		line("insert", "every record is refused: %s", i.Refuses)
	default:
		line("insert", "allowed")
	}
	line("  columns", "%s", columns(i.Columns, nil))
	for _, check := range i.Checks {
		values := make([]string, len(check.Allowed))
		for n, value := range check.Allowed {
			values[n] = string(value)
		}
		text := "must be " + strings.Join(values, " or ")
		if check.Stamps {
			text += ", and is when it is left out"
		}
		line("  check", "%s %s", check.Column, text)
	}
}

// list shows the beginning of a long list; --format json has all of it.
func list(values []json.RawMessage) string {
	const most = 20
	var texts []string
	for _, value := range values[:min(len(values), most)] {
		texts = append(texts, string(value))
	}
	if len(values) > most {
		texts = append(texts, fmt.Sprintf("… (%d values)", len(values)))
	}
	return "(" + strings.Join(texts, ", ") + ")"
}

func names(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

func limit(n int) string {
	if n == 0 {
		return "no limit"
	}
	return strconv.Itoa(n)
}

// columns lists names; where none is known at all, the grant is for every one.
func columns(allowed, hidden []string) string {
	if len(allowed) == 0 && len(hidden) == 0 {
		return "every one (none is known here: --against names them)"
	}
	return names(allowed)
}
