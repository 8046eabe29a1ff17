package dedupe

import (
	"crypto/sha256"
	"encoding/binary"
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

// An id in the store begins with what it names.
const (
	ofRecord        = "r"
	ofCheckedRecord = "c"
	ofRequest       = "k"
)

// RecordID names the record with an id. checked is what the sender's grant
// stamps or checks of it, encoded, empty where it asks for nothing: records with
// other values there are other records, whoever sends them.
func RecordID(checked, id []byte) string {
	if len(checked) == 0 {
		return ofRecord + string(id)
	}
	b := binary.AppendUvarint([]byte(ofCheckedRecord), uint64(len(checked)))
	return string(append(append(b, checked...), id...))
}

// RequestID names the request of a caller under an idempotency key. Each caller
// has keys of its own, and among them each of the checks that its grant makes.
func RequestID(caller string, checks []byte, key string) string {
	b := binary.AppendUvarint(nil, uint64(len(caller)))
	sum := sha256.Sum256(append(append(b, caller...), checks...))
	return ofRequest + string(sum[:]) + key
}

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
