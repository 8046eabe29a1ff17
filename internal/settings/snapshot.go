package settings

import (
	"time"

	"github.com/wavehouse/wavehouse/internal/pipes"
	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Snapshot is what one tenant is served by: four files read at one moment. It
// is immutable; a request takes its tenant's once and keeps it to the end.
type Snapshot struct {
	Tenant tenant.ID
	Config Config
	Policy *policy.Policy
	// Pipes are those of pipes.json.
	Pipes *pipes.Set
	// Roles are those of roles.json, in its order.
	Roles []string
	// Hash tells the content of the four files from any other: replicas with
	// the same files have the same hash.
	Hash      string
	AdoptedAt time.Time

	document *policy.Document
}
