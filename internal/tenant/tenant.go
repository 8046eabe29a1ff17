// Package tenant defines the tenant id and its grammar. Every queue subject,
// cache key, dedupe key, pool and log line carries one.
package tenant

import "fmt"

// MaxLen is the longest tenant id, in bytes.
const MaxLen = 64

// Default is the tenant of a flat settings directory, and of a request that
// names none.
const Default ID = "0"

// ID is a tenant id: 1 to 64 bytes of A–Z a–z 0–9 _ and -. Case matters.
// Values come from Parse or are Default; code that holds an ID may rely on
// its grammar, so it is safe as a file name and as a subject token.
type ID string

// Parse checks s against the grammar of a tenant id.
func Parse(s string) (ID, error) {
	if s == "" || len(s) > MaxLen {
		return "", fmt.Errorf("tenant id of %d bytes: want 1 to %d", len(s), MaxLen)
	}
	for i := range len(s) {
		if !allowed(s[i]) {
			return "", fmt.Errorf("tenant id %q: only A-Z a-z 0-9 _ and - are allowed", s)
		}
	}
	return ID(s), nil
}

func allowed(c byte) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
		return true
	}
	return false
}

// String returns the id as text.
func (id ID) String() string { return string(id) }
