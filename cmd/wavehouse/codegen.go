package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wavehouse/wavehouse/internal/app"
	"github.com/wavehouse/wavehouse/internal/codegen"
)

func newCodegen(t *terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "codegen",
		Short: "Write types of a role's tables and pipes for clients",
		Long: `Writes what a role may read, insert and run as types of a language. They come from
a running server (--server and its operator key), or from a settings directory and
a ClickHouse (--dir and --against).

With --check nothing is written: it exits 1 when the file is not what would be.`,
		Example: `  wavehouse codegen ts --role viewer --out src/wavehouse.ts
  wavehouse codegen ts --role viewer --dir ./settings --against localhost:8123 --out src/wavehouse.ts
  wavehouse codegen ts --role viewer --check --out src/wavehouse.ts
  wavehouse codegen go --role writer --package events --out events/wavehouse.go`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	o := &codegenOptions{ops: addOpsFlags(cmd, t.env)}
	flags := cmd.PersistentFlags()
	flags.StringVar(&o.role, "role", "", "the role whose view it is (required)")
	flags.StringVar(&o.out, "out", "", "the file to write; standard output when left out")
	flags.BoolVar(&o.check, "check", false, "write nothing, and fail when the file is not up to date")
	flags.StringVar(&o.dir, "dir", "", "the settings directory, instead of a server")
	flags.StringVar(&o.against, "against", "", "the ClickHouse to read tables from, with --dir")
	ts := &cobra.Command{
		Use: "ts", Short: "TypeScript, for new WaveHouse<Database>()", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), t, func(shape codegen.Shape) (string, error) { return codegen.TypeScript(shape), nil })
		},
	}
	golang := &cobra.Command{
		Use: "go", Short: "Go structs", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.run(cmd.Context(), t, func(shape codegen.Shape) (string, error) { return codegen.Go(shape, o.packageName) })
		},
	}
	golang.Flags().StringVar(&o.packageName, "package", "wavehousetypes", "the name of the package")
	cmd.AddCommand(ts, golang)
	return cmd
}

type codegenOptions struct {
	ops                                  opsFlags
	role, out, dir, against, packageName string
	check                                bool
}

func (o *codegenOptions) run(ctx context.Context, t *terminal, render func(codegen.Shape) (string, error)) error {
	switch {
	case o.role == "":
		return &usageError{errors.New("name a role with --role")}
	case o.check && o.out == "":
		return &usageError{errors.New("--check needs the file to look at: --out")}
	case (o.dir == "") != (o.against == ""):
		return &usageError{errors.New("--dir and --against go together; without both a running server is asked")}
	}
	shape, err := o.shape(ctx, t)
	if err != nil {
		return err
	}
	if len(shape.Tables)+len(shape.Pipes) == 0 {
		return fmt.Errorf("the role %q may read, insert and run nothing: no table and no pipe has a grant for it", o.role)
	}
	text, err := render(shape)
	if err != nil {
		return fmt.Errorf("write the types: %w", err)
	}
	switch {
	case o.check:
		return o.compare(t, text)
	case o.out == "":
		_, err = io.WriteString(t.out, text)
		return err
	}
	if err := writeSource(o.out, []byte(text)); err != nil {
		return fmt.Errorf("write the types: %w", err)
	}
	_, _ = fmt.Fprintf(t.err, "%s: %d tables, %d pipes\n", o.out, len(shape.Tables), len(shape.Pipes))
	return nil
}

// writeSource writes a file that others read, as the umask allows, beside the one that
// it then replaces: a compiler sees the old types or the new. What is no plain file,
// such as a link or /dev/stdout, is written through.
func writeSource(file string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // sources are no secrets
		return err
	}
	const mode = 0o644
	if at, err := os.Lstat(file); err == nil && !at.Mode().IsRegular() {
		return os.WriteFile(file, text, mode) //nolint:gosec // sources are no secrets
	}
	next := filepath.Join(filepath.Dir(file), fmt.Sprintf(".%s.%d", filepath.Base(file), os.Getpid()))
	err := os.WriteFile(next, text, mode) //nolint:gosec // sources are no secrets
	if err == nil {
		err = os.Rename(next, file)
	}
	if err != nil {
		_ = os.Remove(next) // whole or not at all
	}
	return err
}

func (o *codegenOptions) compare(t *terminal, want string) error {
	have, err := os.ReadFile(o.out)
	if err != nil {
		return fmt.Errorf("look at the types: %w", err)
	}
	if string(have) != want {
		line, old, now := firstDifference(string(have), want)
		_, _ = fmt.Fprintf(t.err, "%s is not up to date: run the command without --check\n%s:%d: it has %q, and would have %q\n", o.out, o.out, line, old, now)
		return &silentError{errors.New("the types are not up to date")}
	}
	return nil
}

// firstDifference returns the first line, from 1, that differs in two texts that do.
func firstDifference(have, want string) (line int, old, now string) {
	before, after := strings.Split(have, "\n"), strings.Split(want, "\n")
	for line < min(len(before), len(after)) && before[line] == after[line] {
		line++
	}
	at := func(lines []string) string {
		if line < len(lines) {
			return lines[line]
		}
		return ""
	}
	return line + 1, at(before), at(after)
}

func (o *codegenOptions) shape(ctx context.Context, t *terminal) (codegen.Shape, error) {
	if o.dir != "" {
		asJSON := false
		_, snapshot, err := policyFlags{dir: &o.dir, tenant: o.ops.tenant, asJSON: &asJSON}.snapshot(t)
		if err != nil {
			return codegen.Shape{}, err
		}
		password, err := passwords(t)
		if err != nil {
			return codegen.Shape{}, err
		}
		return app.Types(ctx, snapshot, o.role, o.against, password(snapshot.Tenant))
	}
	client, err := o.ops.client(t.env)
	if err != nil {
		return codegen.Shape{}, err
	}
	// A table that was made or altered a moment ago is to be in the types.
	if err := client.ask(ctx, http.MethodPost, "/v1/ops/schema/refresh", nil, nil, new(json.RawMessage)); err != nil {
		return codegen.Shape{}, err
	}
	var shape codegen.Shape
	err = client.ask(ctx, http.MethodGet, "/v1/ops/types", url.Values{"role": {o.role}}, nil, &shape)
	return shape, err
}
