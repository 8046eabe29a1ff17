package api

import "net/http"

// setHeaders sets headers, each given by its canonical name and its value, and makes
// room for all the values at once.
func setHeaders(header http.Header, pairs ...string) {
	values := make([]string, len(pairs)/2)
	for i := range values {
		values[i] = pairs[2*i+1]
		header[pairs[2*i]] = values[i : i+1 : i+1]
	}
}
