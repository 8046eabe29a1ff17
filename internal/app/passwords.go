package app

import (
	"sync"

	"github.com/wavehouse/wavehouse/internal/config"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// passwords are the ClickHouse passwords: one for all tenants, or one each
// from a file that is read again with every reload.
type passwords struct {
	all  string
	file string

	mu     sync.Mutex
	byName map[tenant.ID]config.Secret
}

func newPasswords(c config.ClickHouse) (*passwords, error) {
	p := &passwords{all: c.Password.Reveal(), file: c.PasswordsFile}
	byName, err := p.read()
	p.byName = byName
	return p, err
}

func (p *passwords) read() (map[tenant.ID]config.Secret, error) {
	if p.file == "" {
		return nil, nil
	}
	return settings.Passwords(p.file)
}

// reload reads the file again; one that cannot be read keeps what it said.
func (p *passwords) reload() error {
	byName, err := p.read()
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.byName = byName
	return nil
}

func (p *passwords) of(id tenant.ID) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if password, ok := p.byName[id]; ok {
		return password.Reveal()
	}
	return p.all
}
