package query

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	cursorVersion = 1
	// maxCursor bounds a cursor, in characters: it travels in a header. What would
	// be longer is not given out.
	maxCursor = 3 << 10
	nonceSize = 12
	bindSize  = 16
)

// CodeCursorInvalid is the code of a cursor that does not continue the query.
const CodeCursorInvalid = "query.cursor_invalid"

// Cursors seals the positions of pages, and opens them. A position holds values of
// the last row: a cursor shows nothing of them, and nobody else makes one.
type Cursors struct {
	aead cipher.AEAD
	mac  []byte // key
}

// NewCursors derives its keys from secret; a nil one is made up. Processes whose
// clients go from one to the other need the same.
func NewCursors(secret []byte) (*Cursors, error) {
	if secret == nil {
		secret = make([]byte, 32)
		_, _ = rand.Read(secret) // never fails: it ends the process instead
	}
	derived, err := hkdf.Key(sha256.New, secret, nil, "wavehouse query cursors", 64)
	if err != nil {
		return nil, fmt.Errorf("derive the key of cursors: %w", err)
	}
	block, err := aes.NewCipher(derived[:32])
	if err != nil {
		return nil, fmt.Errorf("derive the key of cursors: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("derive the key of cursors: %w", err)
	}
	return &Cursors{aead: aead, mac: derived[32:]}, nil
}

// binding is what a cursor belongs to.
type binding struct{ table, grant, document [bindSize]byte }

func bound(parts ...string) (sum [bindSize]byte) {
	h := sha256.New()
	for _, part := range parts {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		_, _ = h.Write(length[:])
		_, _ = h.Write([]byte(part))
	}
	return [bindSize]byte(h.Sum(nil))
}

// position is where a page ends.
type position struct {
	// key is that of the last row, see keyset.
	key string
	// total: the key has the mark of the whole row in it. rough: it has the values of
	// order_by alone, and all rows that are equal in them were sent.
	total, rough bool
	// skip is how many rows of this very key were sent; 0 is all there were.
	skip int64
	// now is what relative bounds count back from, on every page.
	now time.Time
}

// What a position's key has in it.
const (
	extentUsual byte = iota
	extentTotal
	extentRough
)

func (p position) extent() byte {
	switch {
	case p.total:
		return extentTotal
	case p.rough:
		return extentRough
	}
	return extentUsual
}

// seal makes a cursor, equal ones of equal positions; "" of one that is too long.
func (c *Cursors) seal(b binding, p position) string {
	plain := make([]byte, 0, 3*bindSize+32+len(p.key))
	for _, part := range [][bindSize]byte{b.table, b.grant, b.document} {
		plain = append(plain, part[:]...)
	}
	plain = binary.AppendVarint(plain, p.now.Unix())
	plain = binary.AppendUvarint(plain, uint64(p.skip))
	plain = append(append(plain, p.extent()), packed(p.key)...)
	// The nonce is made of what is sealed: it is never used for anything else.
	mac := hmac.New(sha256.New, c.mac)
	_, _ = mac.Write(plain)
	out := append([]byte{cursorVersion}, mac.Sum(nil)[:nonceSize]...)
	text := base64.RawURLEncoding.EncodeToString(c.aead.Seal(out, out[1:1+nonceSize], plain, out[:1]))
	if len(text) > maxCursor {
		return ""
	}
	return text
}

// open reads a cursor that belongs to b.
func (c *Cursors) open(b binding, text string) (position, *Error) {
	plain, err := c.unseal(text)
	if err != nil {
		return position{}, cursorInvalid("is none of this server's: it was changed, or made under a key that is not used any more")
	}
	for _, part := range []struct {
		want [bindSize]byte
		what string
	}{
		{b.table, "belongs to another table"},
		{b.grant, "was given to a caller who may see other rows or columns"},
		{b.document, "belongs to another document, or to the table as it was before its columns changed: only limit may differ from page to page"},
	} {
		if [bindSize]byte(plain) != part.want {
			return position{}, cursorInvalid(part.what)
		}
		plain = plain[bindSize:]
	}
	var p position
	seconds, n := binary.Varint(plain)
	skip, m := binary.Uvarint(plain[max(n, 0):])
	if n <= 0 || m <= 0 || len(plain) == n+m {
		return position{}, cursorInvalid("does not say where the page ended")
	}
	p.now, p.skip = time.Unix(seconds, 0), int64(skip) //nolint:gosec // it was sealed here
	p.total, p.rough = plain[n+m] == extentTotal, plain[n+m] == extentRough
	p.key = unpacked(plain[n+m+1:])
	return p, nil
}

func (c *Cursors) unseal(text string) ([]byte, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, err
	}
	if len(text) > maxCursor || len(raw) < 1+nonceSize || raw[0] != cursorVersion {
		return nil, errors.New("not a cursor of this version")
	}
	plain, err := c.aead.Open(nil, raw[1:1+nonceSize], raw[1+nonceSize:], raw[:1])
	if err == nil && len(plain) < 3*bindSize {
		err = errors.New("too short")
	}
	return plain, err
}

func cursorInvalid(why string) *Error {
	return &Error{Code: CodeCursorInvalid, Message: "the cursor " + why}
}

// packed is a key in half of its length: each part in bytes behind its length and
// the byte that says whether it is one of partNull and partNaN.
func packed(key string) []byte {
	var out []byte
	for part := range strings.SplitSeq(key, partSeparator) {
		value, err := hex.DecodeString(part)
		if err != nil {
			value = []byte(part)
		}
		tag := byte(0)
		if err != nil {
			tag = 1
		}
		out = append(binary.AppendUvarint(append(out, tag), uint64(len(value))), value...)
	}
	return out
}

// unpacked is what packed was made of.
func unpacked(data []byte) string {
	var parts []string
	for len(data) > 1 {
		tag := data[0]
		length, n := binary.Uvarint(data[1:])
		if n <= 0 || length > uint64(len(data)-1-n) {
			break
		}
		value := data[1+n : 1+n+int(length)]
		data = data[1+n+len(value):]
		if tag == 1 {
			parts = append(parts, string(value))
		} else {
			parts = append(parts, strings.ToUpper(hex.EncodeToString(value)))
		}
	}
	return strings.Join(parts, partSeparator)
}
