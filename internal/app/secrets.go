package app

import (
	"crypto/sha256"
	"sync"

	"github.com/wavehouse/wavehouse/internal/config"
	"github.com/wavehouse/wavehouse/internal/settings"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// secrets are one for all tenants, or one each from a file that is read again with
// every reload.
type secrets struct {
	all  string
	key  string // of the boot configuration, that names the file
	file string

	mu     sync.Mutex
	byName map[tenant.ID]config.Secret
}

func newSecrets(all config.Secret, key, file string) (*secrets, error) {
	s := &secrets{all: all.Reveal(), key: key, file: file}
	return s, s.reload()
}

// reload reads the file again; one that cannot be read keeps what it said.
func (s *secrets) reload() error {
	if s.file == "" {
		return nil
	}
	byName, err := settings.Secrets(s.key, s.file)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byName = byName
	return nil
}

func (s *secrets) of(id tenant.ID) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own, ok := s.byName[id]; ok {
		return own.Reveal()
	}
	return s.all
}

// print tells secrets apart without giving them away; "" for none.
func (s *secrets) print(id tenant.ID) string {
	secret := s.of(id)
	if secret == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(secret))
	return string(sum[:])
}
