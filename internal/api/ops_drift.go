package api

import (
	"net/http"
	"net/url"
	"time"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/ingest"
)

// driftAnswer is a field that records had and their table has no column for.
type driftAnswer struct {
	Table     string    `json:"table"`
	Name      string    `json:"name"`
	Type      string    `json:"type"`
	Count     int64     `json:"count"`
	FirstSeen time.Time `json:"first_seen"`
	LastSeen  time.Time `json:"last_seen"`
	// Statement adds the column; there is none for a name that was cut.
	Statement string `json:"statement,omitempty"`
	NameCut   bool   `json:"name_cut,omitempty"`
}

// opsDrift lists the unknown fields that this process has seen and that have no
// column still: GET /v1/ops/drift.
func (s *Server) opsDrift(w http.ResponseWriter, _ *http.Request, query url.Values) error {
	c, err := s.servedTenant(query)
	if err != nil {
		return err
	}
	fields := s.Gate.Drift(c.tenant)
	answers := make([]driftAnswer, 0, len(fields))
	catalogue, _ := s.Schemas.Catalogue(c.tenant)
	for _, f := range fields {
		if catalogue != nil {
			table, ok := catalogue.Table(f.Table)
			if !ok {
				continue
			}
			if _, known := table.Record.Lookup(f.Name); known {
				continue
			}
		}
		answer := driftAnswer{
			Table: f.Table, Name: f.Name, Type: f.Type, Count: f.Count, FirstSeen: f.First.UTC(), LastSeen: f.Last.UTC(), NameCut: f.Cut,
		}
		if !f.Cut && f.Name != "" {
			answer.Statement = addColumn(c.settings.Config.ClickHouse.Database, f)
		}
		answers = append(answers, answer)
	}
	return writeJSON(w, http.StatusOK, map[string]any{"fields": answers})
}

// addColumn is the statement that makes a column for the field. Records without
// the field are taken too: they get the default.
func addColumn(database string, f ingest.DriftField) string {
	statement := "ALTER TABLE " + clickhouse.QuoteIdent(database) + "." + clickhouse.QuoteIdent(f.Table) +
		" ADD COLUMN " + clickhouse.QuoteIdent(f.Name) + " " + f.Type
	if f.Default != "" {
		statement += " DEFAULT " + f.Default
	}
	return statement
}
