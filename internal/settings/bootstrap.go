package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Preset is a starting set of the four files.
type Preset struct {
	// Open lets everyone read and insert everything. It is for a server that
	// only its own machine can reach.
	Open bool
	// The tenant's ClickHouse; an empty or zero value is the default.
	Addr     string
	HTTPPort int
	Database string
	Username string
}

// Closed is the preset of `wavehouse bootstrap`: no policy, so everyone is
// denied until one is written.
func Closed() Preset { return Preset{} }

// Permissive is the preset of `wavehouse dev`: a role "public", which every
// request without a token has, may read and insert every column of every table.
func Permissive(addr string, httpPort int) Preset {
	return Preset{Open: true, Addr: addr, HTTPPort: httpPort}
}

// publicRole is the role of requests without a token in the open preset.
const publicRole = "public"

// Bootstrap writes the preset to dir, which is created when it is missing, and
// returns the paths of the files. It refuses a directory that is not empty. The
// zero preset has no policy: everyone is denied.
func Bootstrap(dir string, p Preset) ([]string, error) {
	if err := emptyDir(dir); err != nil {
		return nil, err
	}
	contents := p.files()
	var written []string
	for _, name := range fileNames() {
		path := filepath.Join(dir, name)
		if err := writeNew(path, contents[name]); err != nil {
			// A part of the set would be refused at the start, and would stand in
			// the way of another attempt.
			for _, w := range written {
				_ = os.Remove(w)
			}
			return nil, fmt.Errorf("write %s: %w", path, err)
		}
		written = append(written, path)
	}
	return written, nil
}

// BootstrapTenant writes the preset to the tenant's folder in a nested settings
// directory, in the way of Bootstrap. It refuses a directory that is flat.
func BootstrapTenant(dir string, id tenant.ID, p Preset) ([]string, error) {
	for _, name := range fileNames() {
		if exists(filepath.Join(dir, name)) {
			return nil, fmt.Errorf("%q holds %s: a settings directory is flat or nested, never both", dir, name)
		}
	}
	return Bootstrap(TenantDir(dir, ShapeNested, id), p)
}

func emptyDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create the settings directory: %w", err)
	}
	entries, err := os.ReadDir(dir)
	switch {
	case err != nil:
		return fmt.Errorf("read the settings directory: %w", err)
	case len(entries) > 0:
		return fmt.Errorf("%q is not empty (it holds %q): bootstrap never writes over anything", dir, entries[0].Name())
	}
	return nil
}

// writeNew writes a file that must not exist yet, and leaves nothing behind
// when it fails.
func writeNew(path string, content any) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(content); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(b.Bytes())
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil && !errors.Is(err, fs.ErrExist) {
		_ = os.Remove(path)
	}
	return err
}

// seed is the part that the four files of a preset share.
type seed struct {
	Schema  string   `json:"$schema"`
	Comment []string `json:"$comment"`
}

type seedConfig struct {
	seed
	ClickHouse seedClickHouse `json:"clickhouse"`
}

type seedClickHouse struct {
	Addr     string `json:"addr"`
	HTTPPort int    `json:"http_port"`
	Database string `json:"database"`
	Username string `json:"username"`
}

type seedRoles struct {
	seed
	Roles []string `json:"roles"`
}

type seedPipes struct {
	seed
	Pipes []string `json:"pipes"`
}

type seedPolicies struct {
	seed
	DefaultRole string         `json:"default_role,omitempty"`
	Tables      map[string]any `json:"tables,omitempty"`
}

func (p Preset) files() map[string]any {
	roles := seedRoles{newSeed(fileRoles,
		"The roles that policies and pipes may name, for example \"viewer\" or \"writer\".",
		"A token names its role in the claim that auth.role_claim of config.json says; names are exact.",
		"The role \"admin\" is built in."), []string{}}
	if p.Open {
		roles.Roles = append(roles.Roles, publicRole)
	}
	return map[string]any{
		fileConfig:   p.config(),
		filePolicies: p.policies(),
		filePipes: seedPipes{newSeed(filePipes,
			"Named SQL statements with parameters. There are none."), []string{}},
		fileRoles: roles,
	}
}

func newSeed(file string, comment ...string) seed {
	return seed{Schema: schemaID(file), Comment: comment}
}

func (p Preset) config() seedConfig {
	d := DefaultConfig().ClickHouse
	c := seedClickHouse{Addr: p.Addr, HTTPPort: p.HTTPPort, Database: p.Database, Username: p.Username}
	if c.Addr == "" {
		c.Addr = d.Addr
	}
	if c.HTTPPort == 0 {
		c.HTTPPort = d.HTTPPort
	}
	if c.Database == "" {
		c.Database = d.Database
	}
	if c.Username == "" {
		c.Username = d.Username
	}
	return seedConfig{newSeed(fileConfig,
		"Where ClickHouse is and how rows are batched, kept and served. What is left out has its default.",
		"The password is not here: set WH_CH_PASSWORD or WH_CH_PASSWORD_FILE.",
		"`wavehouse validate --show` prints every key; a running server reloads the file when it is saved."), c}
}

func (p Preset) policies() seedPolicies {
	if !p.Open {
		return seedPolicies{seed: newSeed(filePolicies,
			"No policy: every request for data is denied, also with a valid token. Only the operator key reaches the ops routes.",
			"A policy gives roles of roles.json their columns, table by table; \"*\" stands for tables without an entry of their own:",
			`"tables": {"events": {"viewer": {"select": {"deny_columns": ["ip"]}}, "writer": {"insert": {"allow_columns": ["*"]}}}}`)}
	}
	everything := map[string][]string{"allow_columns": {policy.AllTables}}
	return seedPolicies{
		seed: newSeed(filePolicies,
			"For development: everyone who reaches this server may read and insert everything, without a token.",
			"Do not serve this to a network."),
		DefaultRole: publicRole,
		Tables: map[string]any{
			policy.AllTables: map[string]any{
				publicRole: map[string]any{"select": everything, "insert": everything},
			},
		},
	}
}
