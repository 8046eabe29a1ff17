package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/wavehouse/wavehouse/internal/app"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

func newValidate(t *terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate [dir]",
		Short: "Check a settings directory",
		Long: `Prints every finding of a settings directory in one pass and exits 0 when it
would be adopted (warnings allowed), 1 when it would not, 2 on wrong usage.
WH_SETTINGS_DIR names the directory when no argument does.`,
		Example: `  wavehouse validate ./settings
  wavehouse validate --format json ./settings
  wavehouse validate --show ./settings
  wavehouse validate --against localhost:9000 ./settings`,
		Args: cobra.MaximumNArgs(1),
	}
	format := formatFlag(cmd)
	show := cmd.Flags().Bool("show", false, "print the settings that would be adopted, defaults filled in")
	against := cmd.Flags().String("against", "", "also check tables and columns against the ClickHouse at this native address (host:port)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		asJSON, err := format()
		if err != nil {
			return err
		}
		dir, err := settingsDir(t, args)
		if err != nil {
			return err
		}
		return validate(cmd.Context(), t, validateOptions{dir: dir, asJSON: asJSON, show: *show, against: *against})
	}
	return cmd
}

type validateOptions struct {
	dir, against string
	asJSON, show bool
}

func validate(ctx context.Context, t *terminal, o validateOptions) error {
	report := settings.Validate(o.dir)
	if o.against != "" && report.OK() {
		findings, err := app.CheckAgainst(ctx, report, o.against, lookup(t.env, "WH_CH_PASSWORD"))
		if err != nil {
			return fmt.Errorf("check against %s: %w", o.against, err)
		}
		report.Findings = append(report.Findings, findings...)
	}
	if err := printReport(t, report, o); err != nil {
		return err
	}
	if !report.OK() {
		return &silentError{errors.New("the settings have errors")}
	}
	return nil
}

func printReport(t *terminal, report settings.Report, o validateOptions) error {
	adopted, err := shown(report, o.show)
	if err != nil {
		return err
	}
	if o.asJSON {
		answer := map[string]any{"valid": report.OK(), "shape": report.Shape, "findings": nonNil(report.Findings)}
		if o.show {
			answer["settings"] = adopted
		}
		encoder := json.NewEncoder(t.out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(answer)
	}
	for _, id := range slices.Sorted(maps.Keys(adopted)) {
		fmt.Fprintf(t.out, "%s", adopted[id])
	}
	for _, finding := range report.Findings {
		paint := t.red
		if finding.Severity == settings.SeverityWarning {
			paint = t.yellow
		}
		fmt.Fprintln(t.out, paint(finding.String()))
	}
	verdict := t.green("valid:")
	if !report.OK() {
		verdict = t.red("not valid:")
	}
	fmt.Fprintln(t.err, verdict, o.dir)
	return nil
}

// shown is each tenant's config.json with its defaults filled in.
func shown(report settings.Report, wanted bool) (map[tenant.ID]json.RawMessage, error) {
	adopted := map[tenant.ID]json.RawMessage{}
	if !wanted {
		return adopted, nil
	}
	for id, snapshot := range report.Tenants {
		text, err := snapshot.Config.Show()
		if err != nil {
			return nil, fmt.Errorf("show the settings of tenant %s: %w", id, err)
		}
		adopted[id] = text
	}
	return adopted, nil
}

func nonNil(findings []settings.Finding) []settings.Finding {
	if findings == nil {
		return []settings.Finding{}
	}
	return findings
}
