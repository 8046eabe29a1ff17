package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/wavehouse/wavehouse/internal/app"
	"github.com/wavehouse/wavehouse/internal/config"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

func newValidate(t *terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate [dir]",
		Short: "Check a settings directory",
		Long: `Prints every finding of a settings directory in one pass and exits 0 when it
would be adopted (warnings allowed), 1 when it would not, 2 on wrong usage. In a
directory with one folder for each tenant a finding begins with its folder.
WH_SETTINGS_DIR names the directory when no argument does; --against takes
passwords as the server does: WH_CH_PASSWORD, WH_CH_PASSWORD_FILE,
WH_CH_PASSWORDS_FILE.`,
		Example: `  wavehouse validate ./settings
  wavehouse validate --format json ./settings
  wavehouse validate --show ./settings
  wavehouse validate --tenant acme ./settings
  wavehouse validate --against localhost:8123 ./settings`,
		Args: cobra.MaximumNArgs(1),
	}
	asJSON := formatFlag(cmd)
	show := cmd.Flags().Bool("show", false, "print the settings that would be adopted, defaults filled in")
	only := cmd.Flags().String("tenant", "", "look at one tenant's folder only")
	against := cmd.Flags().String("against", "", "also check tables and columns against the ClickHouse at this host, or host:port with the port of clickhouse.protocol")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir, err := settingsDir(t, args)
		if err != nil {
			return err
		}
		o := validateOptions{dir: dir, asJSON: *asJSON, show: *show, against: *against}
		if len(args) == 0 {
			o.named = " (WH_SETTINGS_DIR)"
		}
		if cmd.Flags().Changed("tenant") {
			if o.tenant, err = tenant.Parse(*only); err != nil {
				return &usageError{fmt.Errorf("--tenant: %w", err)}
			}
		}
		return validate(cmd.Context(), t, o)
	}
	return cmd
}

type validateOptions struct {
	dir, against string
	named        string    // by what, where it is not the argument
	tenant       tenant.ID // "" is all of them
	asJSON, show bool
}

func validate(ctx context.Context, t *terminal, o validateOptions) error {
	report := judge(o)
	key, err := tokenKeys(t)
	if err != nil {
		return err
	}
	report.TellApart(key)
	var unchecked error
	if o.against != "" {
		unchecked = checkAgainst(ctx, t, &report, o.against)
	}
	if err := printReport(t, report, o, unchecked == nil); err != nil {
		return err
	}
	switch {
	case unchecked != nil:
		return fmt.Errorf("check against %s: %w", o.against, unchecked)
	case !report.OK():
		return &silentError{errors.New("the settings have errors")}
	}
	return nil
}

func judge(o validateOptions) settings.Report {
	if o.tenant != "" {
		return settings.ValidateTenant(o.dir, o.tenant)
	}
	return settings.Validate(o.dir)
}

// tokenKeys says which tenants' tokens are verified by the same secret, by the
// variables of the boot configuration. Without any of them the server may have
// one secret for all.
func tokenKeys(t *terminal) (settings.TokenKey, error) {
	all := cmp.Or(lookup(t.env, "WH_AUTH_JWT_SECRET"), "one secret for all")
	return byTenant(t, "auth.jwt_secrets_file", "WH_AUTH_JWT_SECRETS_FILE", all)
}

// byTenant returns what each tenant's secret is: that of the file that a variable
// names, which is a key of the boot configuration, or else the one for all.
func byTenant(t *terminal, key, variable, all string) (func(tenant.ID) string, error) {
	var own map[tenant.ID]config.Secret
	if file := lookup(t.env, variable); file != "" {
		var err error
		if own, err = settings.Secrets(key, file); err != nil {
			return nil, err
		}
	}
	return func(id tenant.ID) string {
		if secret, ok := own[id]; ok {
			return secret.Reveal()
		}
		return all
	}, nil
}

// passwords returns what each tenant's password of ClickHouse is, by the variables of
// the boot configuration.
func passwords(t *terminal) (func(tenant.ID) string, error) {
	boot, _, err := config.Read(t.env, nil)
	if err != nil {
		return nil, err
	}
	return byTenant(t, "clickhouse.passwords_file", "WH_CH_PASSWORDS_FILE", boot.ClickHouse.Password.Reveal())
}

// checkAgainst adds to the report what a live ClickHouse says about the tenants
// that have no error.
func checkAgainst(ctx context.Context, t *terminal, report *settings.Report, addr string) error {
	password, err := passwords(t)
	if err != nil {
		return err
	}
	findings, err := app.CheckAgainst(ctx, *report, addr, password)
	report.Findings = append(report.Findings, findings...)
	return err
}

// printReport prints the findings and the verdict. checked: everything that was
// asked for was looked at.
func printReport(t *terminal, report settings.Report, o validateOptions, checked bool) error {
	adopted, err := shown(report, o.show)
	if err != nil {
		return err
	}
	if o.asJSON {
		answer := map[string]any{"valid": checked && report.OK(), "shape": report.Shape, "findings": report.Findings}
		if o.show {
			answer["settings"] = adopted
		}
		return t.json(answer)
	}
	for _, id := range slices.Sorted(maps.Keys(adopted)) {
		if report.Shape == settings.ShapeNested {
			t.printf("// %s/config.json\n", id)
		}
		t.printf("%s", adopted[id])
	}
	for _, finding := range report.Findings {
		paint := t.red
		if finding.Severity == settings.SeverityWarning {
			paint = t.yellow
		}
		t.printf("%s\n", paint(finding.String()))
	}
	verdict := t.green("valid:")
	switch {
	case !report.OK():
		verdict = t.red("not valid:")
	case !checked:
		verdict = t.yellow("not checked in full:")
	}
	t.sayf("%s %s%s", verdict, o.dir, o.named)
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
