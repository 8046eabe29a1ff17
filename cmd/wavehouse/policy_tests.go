package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/wavehouse/wavehouse/internal/rehearsal"
	"github.com/wavehouse/wavehouse/internal/settings"
)

func newPolicyTest(t *terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "test [file…]",
		Short: "Run the policy tests of a settings directory",
		Long: `Runs the *.test.json files beside the settings, or those that are named: each
says what a caller should see of some rows and be able to insert. Of a directory
of many tenants it runs those of every tenant that has some, unless --tenant names
one. Exits 0 when every test passes, 1 when one does not or when there are none, 2
on wrong usage.`,
		Example: `  wavehouse policy test --dir ./settings
  wavehouse policy test --dir ./settings --format json
  wavehouse policy test --dir ./settings ./tests/viewers.test.json`,
		Args: cobra.ArbitraryArgs,
	}
	flags := addPolicyFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, files []string) error {
		if len(files) == 0 && !cmd.Flags().Changed("tenant") {
			dir, report, err := flags.report(t)
			if err != nil {
				return err
			}
			if report.Shape == settings.ShapeNested {
				return testEveryTenant(t, dir, report, *flags.asJSON)
			}
		}
		dir, snapshot, err := flags.snapshot(t)
		if err != nil {
			return err
		}
		if len(files) == 0 {
			if files, err = rehearsal.Files(dir); err != nil {
				return fmt.Errorf("look for policy tests: %w", err)
			}
		}
		if len(files) == 0 {
			return fmt.Errorf("there are no policy tests (*%s) in %s", settings.PolicyTestSuffix, dir)
		}
		return runPolicyTests(t, map[*settings.Snapshot][]string{snapshot: files}, ownFile, *flags.asJSON)
	}
	return cmd
}

// testEveryTenant runs the tests in the folder of each tenant.
func testEveryTenant(t *terminal, dir string, report settings.Report, asJSON bool) error {
	files := map[*settings.Snapshot][]string{}
	for _, id := range report.Known {
		found, err := rehearsal.Files(settings.TenantDir(dir, report.Shape, id))
		if err != nil {
			return fmt.Errorf("look for policy tests of tenant %s: %w", id, err)
		}
		if len(found) == 0 {
			continue
		}
		snapshot, served := report.Tenants[id]
		if !served {
			sayErrors(t, report)
			return &silentError{fmt.Errorf("the settings of tenant %s have errors", id)}
		}
		files[snapshot] = found
	}
	if len(files) == 0 {
		return fmt.Errorf("there are no policy tests (*%s) in the folders of %s", settings.PolicyTestSuffix, dir)
	}
	return runPolicyTests(t, files, inFolder, asJSON)
}

// policyTests is the result as --format json prints it.
type policyTests struct {
	Passed   int                 `json:"passed"`
	Failed   int                 `json:"failed"`
	Findings []settings.Finding  `json:"findings"`
	Tests    []rehearsal.Outcome `json:"tests"`
}

// ownFile names a file of the one tenant whose tests are run.
func ownFile(_ *settings.Snapshot, name string) string { return name }

// inFolder names a file of one tenant of several.
func inFolder(s *settings.Snapshot, name string) string {
	return filepath.Join(s.Tenant.String(), name)
}

// runPolicyTests runs the files of each tenant, in the order of the tenants.
func runPolicyTests(t *terminal, files map[*settings.Snapshot][]string, lead func(*settings.Snapshot, string) string, asJSON bool) error {
	result := policyTests{Findings: []settings.Finding{}, Tests: []rehearsal.Outcome{}}
	byTenant := func(a, b *settings.Snapshot) int { return cmp.Compare(a.Tenant, b.Tenant) }
	for _, snapshot := range slices.SortedFunc(maps.Keys(files), byTenant) {
		for _, file := range files[snapshot] {
			suite, findings, err := rehearsal.Load(file)
			if err != nil {
				return fmt.Errorf("read a policy test: %w", err)
			}
			if suite != nil {
				outcomes := suite.Run(snapshot)
				for i := range outcomes {
					outcomes[i].File = lead(snapshot, outcomes[i].File)
				}
				result.Tests = append(result.Tests, outcomes...)
			}
			for i := range findings {
				findings[i].File = lead(snapshot, findings[i].File)
			}
			result.Findings = append(result.Findings, findings...)
		}
	}
	for _, outcome := range result.Tests {
		if outcome.OK {
			result.Passed++
		} else {
			result.Failed++
		}
	}
	if err := printPolicyTests(t, result, asJSON); err != nil {
		return err
	}
	if result.Failed > 0 || len(result.Findings) > 0 {
		return &silentError{errors.New("a policy test failed")}
	}
	return nil
}

func printPolicyTests(t *terminal, result policyTests, asJSON bool) error {
	if asJSON {
		return t.json(result)
	}
	for _, finding := range result.Findings {
		t.printf("%s\n", t.red(finding.String()))
	}
	for _, outcome := range result.Tests {
		verdict := t.green("ok  ")
		if !outcome.OK {
			verdict = t.red("FAIL")
		}
		t.printf("%s %s:%d: %s\n", verdict, outcome.File, outcome.Line, outcome.Name)
		for _, failure := range outcome.Failures {
			t.printf("       %s\n", failure)
		}
	}
	t.sayf("%d passed, %d failed", result.Passed, result.Failed)
	return nil
}
