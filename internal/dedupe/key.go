package dedupe

import (
	"crypto/sha256"
	"strings"
)

// maxStoredID is from which length on an id is stored as its SHA-256.
const maxStoredID = 1024

// Key layout: a version, the tenant, a zero byte, the table, a zero byte, a
// byte that says how the id is stored, the id.
const (
	keyVersion = 1
	storedAsIs = 'i'
	storedHash = 'h'
)

// The escapes keep a zero byte in a table's name from ending it.
var escapeTable = strings.NewReplacer("\x00", "\x01\x01", "\x01", "\x01\x02")

// Prefix is what the keys of a scope begin with.
func Prefix(s Scope) string {
	return string(rune(keyVersion)) + string(s.Tenant) + "\x00" + escapeTable.Replace(s.Table) + "\x00"
}

// Key is an id's key in a store, of a bounded length for any id. prefix is its
// scope's.
func Key(prefix, id string) string {
	if len(id) <= maxStoredID {
		return prefix + string(rune(storedAsIs)) + id
	}
	sum := sha256.Sum256([]byte(id))
	return prefix + string(rune(storedHash)) + string(sum[:])
}
