package api

import (
	"net/http"
	"net/url"

	"github.com/wavehouse/wavehouse/internal/codegen"
)

// opsTypes says what a role may read, insert and run, with types:
// GET /v1/ops/types?role=.
func (s *Server) opsTypes(w http.ResponseWriter, r *http.Request, query url.Values) error {
	addVary(w.Header(), "Accept")
	if err := jsonAccepted(r.Header); err != nil {
		return err
	}
	c, err := s.servedTenant(query)
	if err != nil {
		return err
	}
	role, present, err := one(query, "role")
	if err != nil {
		return err
	}
	if !present || role == "" {
		return problem(http.StatusBadRequest, "query_string.invalid", "role is missing").hint("for example ?role=viewer")
	}
	catalogue, loaded := s.Schemas.Catalogue(c.tenant)
	if !loaded {
		return schemaNotLoaded()
	}
	pool, err := s.Pools.Get(c.tenant)
	if err != nil {
		return err
	}
	describe := codegen.Describer(r.Context(), pool)
	return writeJSON(w, http.StatusOK, codegen.Of(c.settings, role, catalogue, describe))
}
