package api

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestHostsOfThisMachine(t *testing.T) {
	for _, host := range []string{"localhost", "localhost:8080", "LocalHost:1", "app.localhost:8080", "127.0.0.1", "127.0.0.1:8080", "127.8.8.8", "[::1]:8080", "[::1]", "::1", "[::ffff:127.0.0.1]:80", "localhost."} {
		assert.True(t, isLocal(host), host)
	}
	for _, host := range []string{"", "evil.example", "localhost.evil.example", "evil.example:8080", "10.0.0.1", "0.0.0.0:8080", "notlocalhost", "127.0.0.1.evil.example", "[::2]:80", "192.168.1.2"} {
		assert.False(t, isLocal(host), host)
	}
}
