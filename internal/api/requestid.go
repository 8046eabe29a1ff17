package api

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
)

const (
	requestIDHeader = "X-Request-Id"
	maxRequestID    = 128
)

// requestID returns the caller's id when it is 1 to 128 visible ASCII
// characters, else a new one.
func requestID(sent string) string {
	if sent == "" || len(sent) > maxRequestID {
		return newRequestID()
	}
	for i := range len(sent) {
		if sent[i] <= ' ' || sent[i] > '~' {
			return newRequestID()
		}
	}
	return sent
}

func newRequestID() string {
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:8], rand.Uint64())
	binary.BigEndian.PutUint64(raw[8:], rand.Uint64())
	return hex.EncodeToString(raw[:])
}
