package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"golang.org/x/term"
)

// terminal is what a command talks to: data goes to out, talk goes to err.
type terminal struct {
	in       io.Reader
	out, err io.Writer
	env      []string
	// interactive says that err is a terminal, colour that it may be coloured.
	interactive bool
	colour      bool
	// hangups tells of each SIGHUP.
	hangups chan os.Signal
	// failed is the first failure to write data: what was asked for did not
	// arrive, so the command has failed, too.
	failed error
}

func newTerminal(in, out, err *os.File, env []string) *terminal {
	interactive := term.IsTerminal(int(err.Fd()))
	return &terminal{
		in: in, out: out, err: err, env: env, interactive: interactive,
		colour: interactive && lookup(env, "NO_COLOR") == "" && lookup(env, "TERM") != "dumb",
	}
}

// printf writes data.
func (t *terminal) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(t.out, format, args...); err != nil && t.failed == nil {
		t.failed = fmt.Errorf("write the output: %w", err)
	}
}

// table writes rows of data in columns.
func (t *terminal) table(rows [][]string) {
	var text strings.Builder
	columns := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		_, _ = fmt.Fprintln(columns, strings.Join(row, "\t"))
	}
	_ = columns.Flush() // into memory
	t.printf("%s", text.String())
}

// json writes data as indented JSON.
func (t *terminal) json(v any) error {
	encoder := json.NewEncoder(t.out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// sayf writes a line of talk. Whoever does not listen misses it.
func (t *terminal) sayf(format string, args ...any) {
	_, _ = fmt.Fprintf(t.err, format+"\n", args...)
}

func lookup(env []string, name string) string {
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// paint colours s with an ANSI code when the terminal takes colour.
func (t *terminal) paint(code, s string) string {
	if !t.colour {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (t *terminal) red(s string) string    { return t.paint("31", s) }
func (t *terminal) yellow(s string) string { return t.paint("33", s) }
func (t *terminal) green(s string) string  { return t.paint("32", s) }
