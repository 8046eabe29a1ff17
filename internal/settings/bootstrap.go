package settings

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// presets holds the files of the presets. What the folder "open" lacks is that
// of "closed".
//
//go:embed preset
var presets embed.FS

// Preset is a starting set of the four files.
type Preset struct {
	open     bool
	addr     string
	httpPort int
	// tenantClaim is the claim that says whose a token is, "" asks for none.
	tenantClaim string
}

// Closed is the preset of `wavehouse bootstrap`: no policy, so everyone is
// denied until one is written.
func Closed() Preset {
	d := DefaultConfig().ClickHouse
	return Preset{addr: d.Addr, httpPort: d.HTTPPort}
}

// Permissive is the preset of `wavehouse dev`, for a server that only its own
// machine can reach: a role "public", which every request without a token has,
// may read and insert every column of every table.
func Permissive(addr string, httpPort int) Preset {
	return Preset{open: true, addr: addr, httpPort: httpPort}
}

// Bootstrap writes the preset to dir, which is created when it is missing, and
// returns the paths of the files. It refuses a directory that is not empty.
func Bootstrap(dir string, p Preset) ([]string, error) {
	if err := emptyDir(dir); err != nil {
		return nil, err
	}
	var written []string
	for _, name := range fileNames() {
		path := filepath.Join(dir, name)
		if err := p.write(name, path); err != nil {
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
	p.tenantClaim = "tenant"
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

// write writes one of the files, which must not exist yet, and leaves nothing
// behind when it fails.
func (p Preset) write(name, path string) error {
	text, err := presets.ReadFile("preset/open/" + name)
	if !p.open || errors.Is(err, fs.ErrNotExist) {
		text, err = presets.ReadFile("preset/closed/" + name)
	}
	if err != nil {
		return err
	}
	addr, err := json.Marshal(p.addr)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	auth := `{
    "require_exp": true
  }`
	if p.tenantClaim != "" {
		auth = `{
    "require_exp": true,
    "tenant_claim": "` + p.tenantClaim + `"
  }`
	}
	values := strings.NewReplacer(`"{{auth}}"`, auth, `"{{addr}}"`, string(addr), `"{{http_port}}"`, strconv.Itoa(p.httpPort))
	_, err = values.WriteString(f, string(text))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		_ = os.Remove(path)
	}
	return err
}
