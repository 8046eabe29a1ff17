package api

import (
	"errors"
	"log/slog"
	"net/http"
	"regexp"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
)

// exceptionName is how ClickHouse ends the text of an exception.
var exceptionName = regexp.MustCompile(`\(([A-Z][A-Z0-9_]+)\)$`)

// discreet serves a read whose caller may be held by rules. ClickHouse's own
// words may quote a value that it met in a hidden row or a denied column, the
// row filter, names of other columns, and how many rows there are: only who may
// see all of it is told them.
func (s *Server) discreet(h tenantHandler) tenantHandler {
	return func(w http.ResponseWriter, r *http.Request, c *call) error {
		err := h(w, r, c)
		var said *clickhouse.Error
		if err == nil || c.unheld() || !errors.As(err, &said) {
			return err
		}
		p := *problemOf(err)
		if p.Message != said.Message {
			return err // it is not what the caller would be told
		}
		p.Message = "ClickHouse refused the query"
		if name := exceptionName.FindStringSubmatch(said.Message); name != nil {
			p.Message += ": " + name[1]
		}
		s.Logger.DebugContext(r.Context(), "ClickHouse refused a query", slog.String("message", said.Message))
		return &p
	}
}

// unheld reports whether no rule holds the caller.
func (c *call) unheld() bool {
	role, _ := c.settings.Policy.Role(c.identity.Role)
	return c.identity.Operator || c.settings.Policy.IsAdmin(role)
}
