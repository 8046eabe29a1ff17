package config

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/wavehouse/wavehouse/internal/nearest"
	"github.com/wavehouse/wavehouse/internal/spec"
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

// source is where a value came from: name is the variable, the flag or the
// place in the file.
type source struct {
	origin Origin
	name   string
}

// loader reads one configuration.
type loader struct {
	config   *Config
	keys     spec.Of[Config]
	faults   []string
	warnings []string
}

// Load reads the configuration from env (as os.Environ gives it), the file it
// names and flags (key to text, like "server.port"; nil for none). The error is
// an *Error with every fault; the Config is then what could be read, good for
// printing only.
func Load(env []string, flags map[string]string) (*Config, []string, error) {
	return load(env, flags, true)
}

// Read is Load for who does not start a server: a settings directory need not be
// named.
func Read(env []string, flags map[string]string) (*Config, []string, error) {
	return load(env, flags, false)
}

func load(env []string, flags map[string]string, start bool) (*Config, []string, error) {
	c := Default()
	c.sources = map[string]source{}
	l := &loader{config: c, keys: keys()}
	variables := l.split(env)
	l.file(variables[fileVariable])
	l.variables(variables)
	l.flags(flags)
	l.complete()
	if start && c.Settings.Dir == "" {
		l.faultf("settings.dir: required; set WH_SETTINGS_DIR to the settings directory (wavehouse bootstrap writes one)")
	}
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

// binding is what a variable sets: a key, or with file a key from the file that
// it names.
type binding struct {
	key, env string
	file     bool
}

// bindings lists every variable.
func (l *loader) bindings() map[string]binding {
	bound := map[string]binding{fileVariable: {}}
	for _, f := range l.keys {
		bound[f.Env] = binding{key: f.Key}
		if l.keys.Type(f.Key) == reflect.TypeFor[Secret]() {
			bound[f.Env+"_FILE"] = binding{key: f.Key, env: f.Env, file: true}
		}
	}
	return bound
}

// variables applies the WH_* variables in the order of their names, so that the
// report reads the same every time.
func (l *loader) variables(set map[string]string) {
	bound := l.bindings()
	known := slices.Sorted(maps.Keys(bound))
	for _, name := range slices.Sorted(maps.Keys(set)) {
		switch b, ok := bound[name]; {
		case !ok:
			l.unboundVariable(name, set[name], known)
		case b.file:
			l.secretFile(b, name, set)
		case b.key != "":
			l.assign(b.key, set[name], source{OriginEnv, name})
		}
	}
}

// secretFile reads a secret from the file that its variable's twin names.
func (l *loader) secretFile(b binding, name string, set map[string]string) {
	if _, both := set[b.env]; both {
		l.faultf("%s and %s are both set; set one of them", b.env, name)
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
	l.assign(b.key, value, source{OriginEnv, name})
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

func (l *loader) unboundVariable(name, value string, known []string) {
	hint := nearest.Hint(name, known)
	if serviceLink(name, value) {
		hint = "; it looks like a Kubernetes service link: set enableServiceLinks: false on the pod, or give the service another name"
	}
	l.faultf("%s: no key has this variable%s", name, hint)
}

func (l *loader) flags(flags map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		if _, ok := l.keys.Lookup(name); !ok {
			l.faultf("flag for %s: no such key", name)
			continue
		}
		l.assign(name, flags[name], source{OriginFlag, "flag for " + name})
	}
}

// assign sets a key from text. A secret's value is never part of a fault.
func (l *loader) assign(key, text string, from source) {
	if err := l.keys.Set(l.config, key, text); err != nil {
		l.faultf("%s: %v", from.name, err)
		return
	}
	l.config.sources[key] = from
}

// complete fills in what is computed.
func (l *loader) complete() {
	if len(l.config.MQ.NATS.URLs) == 0 {
		l.config.MQ.NATS.URLs = nil // as by default
	}
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

// serviceLink reports whether Kubernetes would inject such a variable for a
// service called "wh" or "wh-…".
func serviceLink(name, value string) bool {
	port := strings.Contains(name, "_PORT_") && (strings.Contains(name, "_TCP") || strings.Contains(name, "_UDP"))
	return port || strings.HasSuffix(name, "_SERVICE_HOST") || strings.Contains(name, "_SERVICE_PORT") ||
		strings.HasPrefix(value, "tcp://") || strings.HasPrefix(value, "udp://")
}
