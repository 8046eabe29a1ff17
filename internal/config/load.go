package config

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/wavehouse/wavehouse/internal/nearest"
)

// Origin tells where a value came from.
type Origin string

// Origins, the strongest first.
const (
	OriginFlag    Origin = "flag"
	OriginEnv     Origin = "env"
	OriginFile    Origin = "file"
	OriginDefault Origin = "default"
)

// DefaultFile is the configuration file when WH_CONFIG names none.
const DefaultFile = "config.yaml"

// fileVariable names the configuration file.
const fileVariable = "WH_CONFIG"

// maxFile bounds the configuration file and the file of a secret, in bytes.
const maxFile = 1 << 20

// Error lists everything that is wrong with a configuration.
type Error struct{ Faults []string }

// Error returns all faults, one a line.
func (e *Error) Error() string {
	return "configuration: " + strings.Join(e.Faults, "\nconfiguration: ")
}

// loader reads one configuration.
type loader struct {
	config   *Config
	keys     []key
	unused   []unused
	faults   []string
	warnings []string
}

// Load reads the configuration from env (as os.Environ gives it), the file it
// names and flags (key to text, like "server.port"; nil for none). The error is
// an *Error with every fault; the Config is then what could be read, good for
// printing only.
func Load(env []string, flags map[string]string) (*Config, []string, error) {
	c := Default()
	c.origins = map[string]Origin{}
	l := &loader{config: c, keys: keys(c)}
	variables := l.split(env)
	l.file(variables[fileVariable])
	l.variables(variables)
	l.flags(flags)
	l.complete()
	l.check()
	if len(l.faults) > 0 {
		return c, l.warnings, &Error{Faults: l.faults}
	}
	return c, l.warnings, nil
}

func (l *loader) faultf(format string, args ...any) {
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

func (l *loader) warnf(format string, args ...any) {
	l.warnings = append(l.warnings, fmt.Sprintf(format, args...))
}

// split keeps the variables that are ours.
func (l *loader) split(env []string) map[string]string {
	ours := map[string]string{}
	for _, e := range env {
		if name, value, ok := strings.Cut(e, "="); ok && strings.HasPrefix(name, "WH_") {
			ours[name] = value
		}
	}
	return ours
}

// variables applies the WH_* variables in the order of their names, so that the
// report reads the same every time.
func (l *loader) variables(set map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if name == fileVariable {
			continue
		}
		if k, ok := l.byEnv(name); ok {
			l.assign(k, set[name], OriginEnv, name)
			continue
		}
		if base, ok := strings.CutSuffix(name, "_FILE"); ok {
			if k, ok := l.byEnv(base); ok && k.secret() {
				l.secretFile(k, name, set)
				continue
			}
		}
		l.unboundVariable(name, set[name])
	}
}

// secretFile reads a secret from the file that its variable's twin names.
func (l *loader) secretFile(k key, name string, set map[string]string) {
	if _, both := set[k.env]; both {
		l.faultf("%s and %s are both set; set one of them", k.env, name)
		return
	}
	data, err := readBounded(set[name])
	if err != nil {
		l.faultf("%s: %v", name, err)
		return
	}
	value := strings.TrimRight(string(data), "\r\n")
	if value == "" {
		l.faultf("%s: the file %q is empty", name, set[name])
		return
	}
	l.assign(k, value, OriginEnv, name)
}

func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%q is not a regular file", path)
	case info.Size() > maxFile:
		return nil, fmt.Errorf("%q has %d bytes; at most %d are read", path, info.Size(), maxFile)
	}
	return os.ReadFile(path)
}

func (l *loader) unboundVariable(name, value string) {
	if s, ok := sectionOf(envSection(name)); ok {
		l.unused = append(l.unused, unused{name, s})
		return
	}
	message := "no key has this variable"
	if serviceLink(name, value) {
		message += "; it looks like a Kubernetes service link: set enableServiceLinks: false on the pod, or give the service another name"
	} else if near, ok := nearest.Name(name, l.variableNames()); ok {
		message += "; did you mean " + near + "?"
	}
	l.faultf("%s: %s", name, message)
}

func (l *loader) variableNames() []string {
	names := []string{fileVariable}
	for _, k := range l.keys {
		names = append(names, k.env)
		if k.secret() {
			names = append(names, k.env+"_FILE")
		}
	}
	return names
}

func (l *loader) flags(flags map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		if k, ok := l.byName(name); ok {
			l.assign(k, flags[name], OriginFlag, "flag for "+name)
			continue
		}
		l.faultf("flag for %s: no such key", name)
	}
}

// assign sets a key from text. what names the source in a fault; a secret's
// value is never part of one.
func (l *loader) assign(k key, text string, origin Origin, what string) {
	if err := setText(k, text); err != nil {
		l.faultf("%s: %v", what, err)
		return
	}
	l.config.origins[k.name] = origin
}

// complete fills in what is computed.
func (l *loader) complete() {
	if l.config.InstanceID != "" {
		return
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "wavehouse"
	}
	random := make([]byte, 4)
	_, _ = rand.Read(random) // never fails
	l.config.InstanceID = host + "-" + hex.EncodeToString(random)
}

func (l *loader) byEnv(name string) (key, bool) {
	i := slices.IndexFunc(l.keys, func(k key) bool { return k.env == name })
	if i < 0 {
		return key{}, false
	}
	return l.keys[i], true
}

func (l *loader) byName(name string) (key, bool) {
	i := slices.IndexFunc(l.keys, func(k key) bool { return k.name == name })
	if i < 0 {
		return key{}, false
	}
	return l.keys[i], true
}

// serviceLink reports whether Kubernetes would inject such a variable for a
// service called "wh" or "wh-…".
func serviceLink(name, value string) bool {
	port := strings.Contains(name, "_PORT_") && (strings.Contains(name, "_TCP") || strings.Contains(name, "_UDP"))
	return port || strings.HasSuffix(name, "_SERVICE_HOST") || strings.Contains(name, "_SERVICE_PORT") ||
		strings.HasPrefix(value, "tcp://") || strings.HasPrefix(value, "udp://")
}
