package main

import (
	"encoding/json"

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
	format := formatFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		asJSON, err := format()
		if err != nil {
			return err
		}
		if asJSON {
			return json.NewEncoder(t.out).Encode(build)
		}
		t.printf("wavehouse %s (commit %s, built %s, %s)\n",
			build.Version, build.GitCommit, build.BuildTime, build.GoVersion)
		return nil
	}
	return cmd
}
