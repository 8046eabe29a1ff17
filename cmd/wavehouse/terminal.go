package main

import (
	"io"
	"os"
	"strings"

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
}

func newTerminal(in, out, err *os.File, env []string) *terminal {
	interactive := term.IsTerminal(int(err.Fd()))
	return &terminal{
		in: in, out: out, err: err, env: env, interactive: interactive,
		colour: interactive && lookup(env, "NO_COLOR") == "" && lookup(env, "TERM") != "dumb",
	}
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

func (t *terminal) bold(s string) string   { return t.paint("1", s) }
func (t *terminal) red(s string) string    { return t.paint("31", s) }
func (t *terminal) yellow(s string) string { return t.paint("33", s) }
func (t *terminal) green(s string) string  { return t.paint("32", s) }
