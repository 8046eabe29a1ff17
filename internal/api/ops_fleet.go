package api

import (
	"net/http"
	"net/url"
	"time"

	"github.com/wavehouse/wavehouse/internal/fleet"
)

// Fleet knows the processes of the service, and which settings are the newest.
type Fleet interface {
	Processes() (all []fleet.Process, generation string)
}

type fleetAnswer struct {
	Generation string          `json:"generation"`
	Agreed     bool            `json:"agreed"`
	Processes  []processAnswer `json:"processes"`
}

type processAnswer struct {
	Instance   string    `json:"instance"`
	Run        string    `json:"run"`
	Roles      []string  `json:"roles"`
	Version    string    `json:"version"`
	Started    time.Time `json:"started_at"`
	Heard      time.Time `json:"heard_at"`
	Silent     bool      `json:"silent"`
	Generation string    `json:"generation"`
	Lagging    bool      `json:"lagging"`
	Shards     []string  `json:"shards"`
}

// opsFleet shows the processes: GET /v1/ops/fleet.
func (s *Server) opsFleet(w http.ResponseWriter, _ *http.Request, _ url.Values) error {
	all, generation := s.Fleet.Processes()
	answer := fleetAnswer{Generation: generation, Agreed: true, Processes: []processAnswer{}}
	for _, p := range all {
		answer.Agreed = answer.Agreed && !p.Lagging
		shards := p.Shards
		if shards == nil {
			shards = []string{}
		}
		answer.Processes = append(answer.Processes, processAnswer{
			Instance: p.Instance, Run: p.Run, Roles: p.Roles, Version: p.Version, Started: p.Started, Heard: p.Heard.UTC(),
			Silent: p.Silent, Generation: p.Generation, Lagging: p.Lagging, Shards: shards,
		})
	}
	return writeJSON(w, http.StatusOK, answer)
}
