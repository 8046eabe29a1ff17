package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/wavehouse/wavehouse/internal/settings"
)

func newBootstrap(t *terminal) *cobra.Command {
	return &cobra.Command{
		Use:   "bootstrap [dir]",
		Short: "Write a starting settings directory",
		Long: `Writes the four settings files with their defaults into a directory that is
empty or does not exist. It is closed: it holds no policy, so nobody may read or
write until you add one. WH_SETTINGS_DIR names the directory when no argument
does.`,
		Example: "  wavehouse bootstrap ./settings && wavehouse validate ./settings",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := settingsDir(t, args)
			if err != nil {
				return err
			}
			files, err := settings.Bootstrap(dir, settings.Closed())
			if err != nil {
				return err
			}
			for _, file := range files {
				fmt.Fprintln(t.out, file)
			}
			fmt.Fprintln(t.err, "Written. Next: add roles and a policy, then `wavehouse validate "+dir+"`.")
			return nil
		},
	}
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
