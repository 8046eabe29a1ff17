package api

import (
	"cmp"
	"net/http"
	"net/url"

	"github.com/wavehouse/wavehouse/internal/pipes"
	"github.com/wavehouse/wavehouse/internal/units"
)

type pipeAnswer struct {
	Name         string            `json:"name"`
	Description  string            `json:"description,omitempty"`
	SQL          string            `json:"sql"`
	Parameters   []parameterAnswer `json:"parameters"`
	AllowedRoles []string          `json:"allowed_roles"`
	Cache        *pipeCacheAnswer  `json:"cache,omitempty"`
	Reads        []string          `json:"reads,omitempty"`
	Policies     string            `json:"policies"`
	Writes       bool              `json:"writes"`
}

type pipeCacheAnswer struct {
	TTL string `json:"ttl"`
}

type parameterAnswer struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Required    bool   `json:"required"`
	Default     any    `json:"default,omitempty"`
	Description string `json:"description,omitempty"`
}

// opsPipes lists the adopted pipes: GET /v1/ops/pipes.
func (s *Server) opsPipes(w http.ResponseWriter, _ *http.Request, query url.Values) error {
	c, err := s.servedTenant(query)
	if err != nil {
		return err
	}
	all := c.settings.Pipes.All()
	answers := make([]pipeAnswer, 0, len(all))
	for _, pipe := range all {
		answers = append(answers, answerPipe(pipe))
	}
	return writeJSON(w, http.StatusOK, answers)
}

// opsPipe shows one of them: GET /v1/ops/pipes/<name>.
func (s *Server) opsPipe(w http.ResponseWriter, r *http.Request, query url.Values) error {
	c, err := s.servedTenant(query)
	if err != nil {
		return err
	}
	pipe, err := namedPipe(r, c)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, answerPipe(pipe))
}

func answerPipe(pipe *pipes.Pipe) pipeAnswer {
	d := pipe.Definition()
	answer := pipeAnswer{
		Name: d.Name, Description: d.Description, SQL: d.SQL, AllowedRoles: d.AllowedRoles, Reads: d.Reads,
		Policies: cmp.Or(d.Policies, pipes.PoliciesOperator), Writes: pipe.Writes(), Parameters: make([]parameterAnswer, 0, len(d.Parameters)),
	}
	if answer.AllowedRoles == nil {
		answer.AllowedRoles = []string{}
	}
	if ttl, set := pipe.TTL(); set {
		answer.Cache = &pipeCacheAnswer{TTL: units.FormatDuration(ttl)}
	}
	for _, p := range d.Parameters {
		answer.Parameters = append(answer.Parameters, parameterAnswer(p))
	}
	return answer
}
