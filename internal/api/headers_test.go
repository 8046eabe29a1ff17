package api

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHeadersThatAreSetTogetherAreEachTheirOwn(t *testing.T) {
	header := http.Header{"Etag": {"old", "older"}}
	setHeaders(header, "Etag", "a", "Content-Type", "b")
	header.Add("Etag", "c")
	require.Equal(t, http.Header{"Etag": {"a", "c"}, "Content-Type": {"b"}}, header)
}

// What is set by name is found by name.
func TestNamesOfHeadersAreCanonical(t *testing.T) {
	for _, name := range []string{requestIDHeader, cacheHeader, truncatedHeader, cursorHeader} {
		require.Equal(t, http.CanonicalHeaderKey(name), name)
	}
}
