package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/wavehouse/wavehouse/internal/config"
)

func newConfig(t *terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Print the effective boot configuration, or its reference",
		Long: `Prints every key with its value and where the value came from: flag, env, file
or default. Secrets are masked. What is wrong is said as well, with exit code 1. With --reference it prints what every key means.`,
		Example: `  wavehouse config
  WH_SERVER_PORT=9090 wavehouse config
  wavehouse config --reference`,
		Args: cobra.NoArgs,
	}
	reference := cmd.Flags().Bool("reference", false, "print every key with its variable, default and meaning (Markdown)")
	asJSON := formatFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		if *reference {
			_, err := io.WriteString(t.out, config.Reference())
			return err
		}
		boot, warnings, err := config.Read(t.env, nil)
		for _, warning := range warnings {
			t.sayf("%s %s", t.yellow("warning:"), warning)
		}
		if *asJSON {
			return errors.Join(t.json(boot.Effective()), err)
		}
		rows := [][]string{{"KEY", "VALUE", "ORIGIN"}}
		for _, s := range boot.Effective() {
			rows = append(rows, []string{s.Key, s.Value, string(s.Origin)})
		}
		t.table(rows)
		return err
	}
	return cmd
}
