package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestIdempotencyKey(t *testing.T) {
	long := strings.Repeat("k", 255)
	for _, c := range []struct {
		values []string
		want   string
		ok     bool
	}{
		{nil, "", true},
		{[]string{"a"}, "a", true},
		{[]string{`"8e03978e-40d5-43dd-bc93-6894a57f9324"`}, `"8e03978e-40d5-43dd-bc93-6894a57f9324"`, true},
		{[]string{long}, long, true},
		{[]string{long + "k"}, "", false},
		{[]string{""}, "", false},
		{[]string{"a b"}, "", false},
		{[]string{"ä"}, "", false},
		{[]string{"a\x7f"}, "", false},
		{[]string{"a", "a"}, "", false},
	} {
		key, err := idempotencyKey(http.Header{"Idempotency-Key": c.values})
		assert.Equal(t, c.want, key)
		assert.Equal(t, c.ok, err == nil, "%q", c.values)
		if !c.ok {
			assert.Equal(t, "idempotency.key_invalid", problemOf(err).Code)
		}
	}
}
