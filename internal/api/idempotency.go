package api

import (
	"net/http"
	"strings"
)

const (
	idempotencyKeyHeader = "Idempotency-Key"
	// replayedHeader says that a request was answered before, under its key.
	replayedHeader    = "Idempotent-Replayed"
	maxIdempotencyKey = 255
)

// idempotencyKey reads the key of a request, "" for none.
func idempotencyKey(h http.Header) (string, error) {
	values := h.Values(idempotencyKeyHeader)
	if len(values) == 0 {
		return "", nil
	}
	key := values[0]
	unseen := strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' })
	if len(values) > 1 || key == "" || len(key) > maxIdempotencyKey || unseen {
		return "", problem(http.StatusBadRequest, "idempotency.key_invalid",
			idempotencyKeyHeader+" must be sent once, as 1 to 255 visible ASCII characters")
	}
	return key, nil
}
