package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/wavehouse/wavehouse/internal/rehearsal"
	"github.com/wavehouse/wavehouse/internal/settings"
)

func newPolicyTest(t *terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "test [file…]",
		Short: "Run the policy tests of a settings directory",
		Long: `Runs the *.test.json files beside the settings, or those that are named: each
says what a caller should see of some rows and be able to insert. Exits 0 when
every test passes, 1 when one does not or when there are none, 2 on wrong usage.`,
		Example: `  wavehouse policy test --dir ./settings
  wavehouse policy test --dir ./settings --format json
  wavehouse policy test --dir ./settings ./tests/viewers.test.json`,
		Args: cobra.ArbitraryArgs,
	}
	flags := addPolicyFlags(cmd)
	cmd.RunE = func(_ *cobra.Command, files []string) error {
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
		return runPolicyTests(t, snapshot, files, *flags.asJSON)
	}
	return cmd
}

// policyTests is the result as --format json prints it.
type policyTests struct {
	Passed   int                 `json:"passed"`
	Failed   int                 `json:"failed"`
	Findings []settings.Finding  `json:"findings"`
	Tests    []rehearsal.Outcome `json:"tests"`
}

func runPolicyTests(t *terminal, snapshot *settings.Snapshot, files []string, asJSON bool) error {
	result := policyTests{Findings: []settings.Finding{}, Tests: []rehearsal.Outcome{}}
	for _, file := range files {
		suite, findings, err := rehearsal.Load(file)
		if err != nil {
			return fmt.Errorf("read a policy test: %w", err)
		}
		result.Findings = append(result.Findings, findings...)
		if suite != nil {
			result.Tests = append(result.Tests, suite.Run(snapshot)...)
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
