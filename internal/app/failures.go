package app

import (
	"log/slog"
	"sync"
	"time"

	"github.com/wavehouse/wavehouse/internal/api"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// failures are the steps of one adoption that could not follow a tenant's
// settings. The next adoption makes a new set.
type failures struct {
	logger *slog.Logger
	at     time.Time

	mu      sync.Mutex
	tenants map[tenant.ID][]api.AdoptionFailure
}

func newFailures(logger *slog.Logger) *failures {
	return &failures{logger: logger, at: time.Now(), tenants: map[tenant.ID][]api.AdoptionFailure{}}
}

// add logs a failure and keeps it.
func (f *failures) add(id tenant.ID, step, message string, err error) {
	f.logger.Error(message, "tenant", id, "step", step, "error", err)
	f.note(id, step, err)
}

// note keeps a failure that was logged already.
func (f *failures) note(id tenant.ID, step string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tenants[id] = append(f.tenants[id], api.AdoptionFailure{Step: step, Error: err.Error(), At: f.at})
}

// of returns a copy of a tenant's failures.
func (f *failures) of(id tenant.ID) []api.AdoptionFailure {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]api.AdoptionFailure(nil), f.tenants[id]...)
}

// AdoptionFailures implements api.Adoptions.
func (a *App) AdoptionFailures(id tenant.ID) []api.AdoptionFailure {
	if f := a.failures.Load(); f != nil {
		return f.of(id)
	}
	return nil
}
