package app

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/wavehouse/wavehouse/internal/config"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// passwords are the ClickHouse passwords: one for all tenants, or one each
// from a file that is read again with every reload.
type passwords struct {
	all  string
	file string

	mu     sync.Mutex
	byName map[tenant.ID]string
}

func newPasswords(c config.ClickHouse) (*passwords, error) {
	p := &passwords{all: c.Password.Reveal(), file: c.PasswordsFile}
	byName, err := p.read()
	p.byName = byName
	return p, err
}

func (p *passwords) read() (map[tenant.ID]string, error) {
	if p.file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(p.file)
	if err != nil {
		return nil, fmt.Errorf("clickhouse.passwords_file: %w", err)
	}
	var byName map[tenant.ID]string
	if err := json.Unmarshal(data, &byName); err != nil {
		// The cause may quote the file, which holds secrets.
		return nil, fmt.Errorf("clickhouse.passwords_file %q: want a JSON object of tenant to password", p.file)
	}
	return byName, nil
}

// reload reads the file again; one that cannot be read keeps what it said.
func (p *passwords) reload(logger *slog.Logger) {
	byName, err := p.read()
	if err != nil {
		logger.Error("keeping the ClickHouse passwords read before", "error", err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.byName = byName
}

func (p *passwords) of(id tenant.ID) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if password, ok := p.byName[id]; ok {
		return password
	}
	return p.all
}
