package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/wavehouse/wavehouse/internal/telemetry"
)

func newVersion(t *terminal, build telemetry.Build) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this binary",
		Example: "  wavehouse version --format json",
		Args:    cobra.NoArgs,
	}
	asJSON := formatFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		if *asJSON {
			return t.json(build)
		}
		t.printf("%s", versionLine(build))
		return nil
	}
	return cmd
}

func versionLine(build telemetry.Build) string {
	return fmt.Sprintf("wavehouse %s (commit %s, built %s, %s)\n", build.Version, build.GitCommit, build.BuildTime, build.GoVersion)
}
