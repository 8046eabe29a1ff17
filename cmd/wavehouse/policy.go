package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

func newPolicy(t *terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Explain and test what the policy of a settings directory grants",
		Example: `  wavehouse policy explain --dir ./settings --role viewer --table events
  wavehouse policy test --dir ./settings`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPolicyExplain(t), newPolicyTest(t))
	return cmd
}

// policyFlags are those of both commands.
type policyFlags struct {
	dir, tenant *string
	asJSON      *bool
}

func addPolicyFlags(cmd *cobra.Command) policyFlags {
	return policyFlags{
		dir:    cmd.Flags().String("dir", "", "the settings directory (WH_SETTINGS_DIR when left out)"),
		tenant: cmd.Flags().String("tenant", string(tenant.Default), "the tenant whose policy it is"),
		asJSON: formatFlag(cmd),
	}
}

// snapshot is what the tenant would be served by, and the directory that its
// four files are in. Settings that would be refused are refused here, with every
// finding.
func (f policyFlags) snapshot(t *terminal) (dir string, s *settings.Snapshot, err error) {
	if dir, err = f.directory(t); err != nil {
		return "", nil, err
	}
	id, err := tenant.Parse(*f.tenant)
	if err != nil {
		return "", nil, &usageError{fmt.Errorf("--tenant: %w", err)}
	}
	report := settings.ValidateTenant(dir, id)
	s, served := report.Tenants[id]
	known := slices.Contains(report.Known, id)
	if known || len(report.Known) == 0 {
		sayErrors(t, report)
	}
	switch {
	case served:
		return settings.TenantDir(dir, report.Shape, id), s, nil
	case known || len(report.Known) == 0:
		return "", nil, &silentError{errors.New("the settings have errors")}
	}
	return "", nil, fmt.Errorf("%s has no tenant %q; it has %s: name one with --tenant", dir, id, tenants(report))
}

func (f policyFlags) directory(t *terminal) (string, error) {
	var args []string
	if *f.dir != "" {
		args = []string{*f.dir}
	}
	return settingsDir(t, args)
}

// report judges the whole directory.
func (f policyFlags) report(t *terminal) (dir string, r settings.Report, err error) {
	if dir, err = f.directory(t); err != nil {
		return "", r, err
	}
	return dir, settings.Validate(dir), nil
}

func sayErrors(t *terminal, report settings.Report) {
	for _, finding := range report.Findings {
		if finding.Severity == settings.SeverityError {
			t.sayf("%s", t.red(finding.String()))
		}
	}
}

func tenants(report settings.Report) string {
	var names []string
	for _, id := range report.Known {
		names = append(names, id.String())
	}
	return strings.Join(names, ", ")
}
