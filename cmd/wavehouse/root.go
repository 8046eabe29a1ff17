package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wavehouse/wavehouse/internal/nearest"
	"github.com/wavehouse/wavehouse/internal/telemetry"
)

// usageError is a command line that cannot be meant: exit code 2.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }

// silentError ends with exit code 1 after everything was said.
type silentError struct{ error }

func (e *silentError) Unwrap() error { return e.error }

func newRoot(t *terminal, build telemetry.Build) *cobra.Command {
	root := &cobra.Command{
		Use:   "wavehouse",
		Short: "A durable front for ClickHouse: ingest, query and live streams over HTTP",
		Long: `WaveHouse stands between applications and ClickHouse. It answers an insert once
it is durable, writes to ClickHouse in large batches, answers queries through
policies, and streams rows live.`,
		Example: `  wavehouse dev                          # everything on this machine, with demo data
  wavehouse bootstrap ./settings         # a starting settings directory
  wavehouse validate ./settings          # every finding, exit code 1 when there is an error
  WH_SETTINGS_DIR=./settings wavehouse serve`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,

		PersistentPostRunE: func(*cobra.Command, []string) error { return t.failed },
	}
	root.SetOut(t.out)
	root.SetErr(t.err)
	// A flag of our own: cobra's needs templates, and a binary with templates keeps
	// every method of every library, for one may name it.
	asked := root.Flags().BoolP("version", "v", false, "version for wavehouse")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *asked {
			t.printf("%s", versionLine(build))
			return nil
		}
		return cmd.Help()
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return misused(cmd, unknownFlag(cmd, err)) })
	root.AddCommand(
		newServe(t, build), newDev(t, build), newValidate(t), newBootstrap(t), newPolicy(t), newDLQ(t), newMQ(t), newCodegen(t), newConfig(t), newToken(t), newHealth(t), newVersion(t, build),
	)
	checkArgs(root)
	return root
}

// checkArgs has a command, and all below it, check its arguments by usageArgs.
func checkArgs(cmd *cobra.Command) {
	cmd.Args = usageArgs(cmd.Args)
	for _, sub := range cmd.Commands() {
		checkArgs(sub)
	}
}

// usageArgs makes a wrong count of arguments a usage error. What is taken for an
// argument of a command that has commands is one that does not exist.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case check == nil:
			return nil
		case cmd.HasSubCommands() && len(args) > 0:
			var names []string
			for _, sub := range cmd.Commands() {
				names = append(names, sub.Name())
			}
			return misused(cmd, fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), nearest.Hint(args[0], names)))
		}
		if err := check(cmd, args); err != nil {
			return misused(cmd, err)
		}
		return nil
	}
}

// unknownFlag says what a flag that the command does not have may have meant.
func unknownFlag(cmd *cobra.Command, err error) error {
	name, unknown := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !unknown {
		return err
	}
	var names []string
	for _, flag := range regexp.MustCompile(`--([a-z-]+)`).FindAllStringSubmatch(cmd.Flags().FlagUsages(), -1) {
		names = append(names, flag[1])
	}
	if meant, ok := nearest.Name(name, names); ok {
		return fmt.Errorf("%w; did you mean --%s?", err, meant)
	}
	return err
}

// misused is the error of a command line that its command cannot make sense of, and
// says where to read what it takes.
func misused(cmd *cobra.Command, err error) error {
	return &usageError{fmt.Errorf("%w\nRun '%s --help' for usage", err, cmd.CommandPath())}
}

// outputFormat is the value of --format: text, or json.
type outputFormat bool

// Set reads the flag.
func (f *outputFormat) Set(text string) error {
	*f = text == "json"
	if text != "json" && text != "text" {
		return errors.New("want text or json")
	}
	return nil
}

func (f *outputFormat) String() string {
	if *f {
		return "json"
	}
	return "text"
}

// Type names the kind of value in the help.
func (f *outputFormat) Type() string { return "format" }

// formatFlag adds --format and returns whether it says JSON.
func formatFlag(cmd *cobra.Command) (asJSON *bool) {
	asJSON = new(bool)
	cmd.Flags().Var((*outputFormat)(asJSON), "format", "how to print: text or json")
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return asJSON
}
