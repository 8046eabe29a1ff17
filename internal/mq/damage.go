package mq

import (
	"fmt"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Faults knows what is wrong with single tenants' parts of a queue that this
// process keeps on disk.
type Faults interface {
	// Damages lists what was found damaged on disk, the newest last, for as long
	// as the copies are kept.
	Damages() []Damage
	// Unavailable says why tenants' queues cannot be opened.
	Unavailable() map[tenant.ID]error
}

// Stores that can be damaged.
const (
	StoreQueue           = "queue"
	StoreDeadLetters     = "dead_letters"
	StoreAcknowledgments = "acknowledgements"
	StoreBatches         = "batches"
)

// Damage is what was found broken on disk in one look.
type Damage struct {
	// Tenant is "" where it is not known whose it is.
	Tenant tenant.ID `json:"tenant"`
	// Store is one of those above.
	Store string    `json:"store"`
	Found time.Time `json:"found_at"`
	// Files were damaged.
	Files []DamagedFile `json:"files,omitempty"`
	// Lost counts chunks (or dead letters) that were stored, not written, and
	// are gone; where that cannot be told, those that may have been. First and
	// Last are their first and last position.
	Lost  uint64 `json:"lost"`
	First uint64 `json:"first_lost,omitempty"`
	Last  uint64 `json:"last_lost,omitempty"`
	// History counts chunks that were written, and that readers of history will
	// miss.
	History uint64 `json:"history_lost,omitempty"`
	// Detail says what else there is to say.
	Detail string `json:"detail,omitempty"`
}

// DamagedFile is a file as it was found, and where that is kept.
type DamagedFile struct {
	File string `json:"file"`
	Copy string `json:"copy,omitempty"`
}

// String is one line for an operator.
func (d Damage) String() string {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(d.Store, "_", " "))
	if d.Tenant != "" {
		b.WriteString(" of tenant " + string(d.Tenant))
	}
	b.WriteString(": damage on disk, found " + d.Found.UTC().Format(time.RFC3339))
	unit := "chunks"
	if d.Store == StoreDeadLetters {
		unit = "dead letters"
	}
	if d.Lost > 0 {
		fmt.Fprintf(&b, "; %d %s lost, from %d to %d", d.Lost, unit, d.First, d.Last)
	} else {
		b.WriteString("; nothing unwritten is lost")
	}
	if d.Detail != "" {
		b.WriteString("; " + d.Detail)
	}
	for _, f := range d.Files {
		if f.Copy != "" {
			fmt.Fprintf(&b, "; %s was copied to %s", f.File, f.Copy)
		}
	}
	return b.String()
}
