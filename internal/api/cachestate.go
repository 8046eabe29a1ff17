package api

import "net/http"

// withoutCacheState is an answer that does not say whether it was cached. What was
// cached is dropped when anybody writes to a table that it was made from: who sees
// some of a table's rows would learn of writes of the others.
type withoutCacheState struct{ http.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w withoutCacheState) WriteHeader(status int) {
	delete(w.Header(), cacheHeader)
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w withoutCacheState) Write(body []byte) (int, error) {
	delete(w.Header(), cacheHeader)
	return w.ResponseWriter.Write(body)
}

// Unwrap is for http.ResponseController.
func (w withoutCacheState) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// tellCacheState says whether an answer was cached, to who may know it.
func tellCacheState(w http.ResponseWriter, state string) {
	if _, hidden := w.(withoutCacheState); !hidden {
		setHeaders(w.Header(), cacheHeader, state)
	}
}

// discreetly hides the state of the cache from a caller who does not see all rows.
func discreetly(w http.ResponseWriter, hidesRows bool) http.ResponseWriter {
	if hidesRows {
		return withoutCacheState{w}
	}
	return w
}
