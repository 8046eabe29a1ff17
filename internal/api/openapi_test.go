package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"
)

// The document and the router name the same routes and methods.
func TestOpenAPINamesEveryRoute(t *testing.T) {
	var document struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	require.NoError(t, json.Unmarshal(openAPIDocument, &document))
	described := map[string]bool{}
	for path, operations := range document.Paths {
		for method := range operations {
			described[strings.ToUpper(method)+" "+path] = true
		}
	}
	served := map[string]bool{}
	server := newTestServer(t, testOptions(t))
	require.NoError(t, chi.Walk(server.public, func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		served[method+" "+route] = true
		return nil
	}))
	require.Equal(t, served, described)
}
