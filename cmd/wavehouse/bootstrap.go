package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

func newBootstrap(t *terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bootstrap [dir]",
		Short: "Write a starting settings directory",
		Long: `Writes the four settings files with their defaults into a directory that is
empty or does not exist. It is closed: it holds no policy, so nobody may read or
write until you add one. --tenant writes them to a folder for one tenant of a
directory with many. WH_SETTINGS_DIR names the directory when no argument does.`,
		Example: `  wavehouse bootstrap ./settings && wavehouse validate ./settings
  wavehouse bootstrap --tenant acme ./settings`,
		Args: cobra.MaximumNArgs(1),
	}
	only := cmd.Flags().String("tenant", "", "write a folder for this tenant")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir, err := settingsDir(t, args)
		if err != nil {
			return err
		}
		files, err := bootstrap(dir, *only, cmd.Flags().Changed("tenant"))
		if err != nil {
			return err
		}
		for _, file := range files {
			t.printf("%s\n", file)
		}
		t.sayf("Written. Next: add roles and a policy, then `wavehouse validate %s`.", dir)
		return nil
	}
	return cmd
}

func bootstrap(dir, name string, nested bool) ([]string, error) {
	if !nested {
		return settings.Bootstrap(dir, settings.Closed())
	}
	id, err := tenant.Parse(name)
	if err != nil {
		return nil, &usageError{fmt.Errorf("--tenant: %w", err)}
	}
	return settings.BootstrapTenant(dir, id, settings.Closed())
}

// settingsDir is the argument, or else WH_SETTINGS_DIR.
func settingsDir(t *terminal, args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	if dir := lookup(t.env, "WH_SETTINGS_DIR"); dir != "" {
		return dir, nil
	}
	return "", &usageError{errors.New("name a settings directory, or set WH_SETTINGS_DIR")}
}
