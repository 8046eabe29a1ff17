package stream

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// An event id is the base64url of two bytes in the clear and one AES block. The
// clear ones are four bits of a version and twelve that tell keys apart; the block
// enciphers 3 bytes of the topic's hash, 4 of the queue's, 6 of the place in it and 3
// of the row (all ones for the whole chunk). Equal positions have equal ids, and
// an id shows nothing else: a place counts rows that its reader may not see.
// What deciphers to the topic's and the queue's hashes was enciphered here. One
// block and no more, since every row has an id.
const (
	idVersion  = 2 << 4 // in the high bits of the first byte
	markBytes  = 2
	rawIDBytes = markBytes + aes.BlockSize
	idChars    = rawIDBytes / 3 * 4

	maxPlace = 1<<48 - 1 // a million chunks a second for nine years
	idWhole  = 1<<24 - 1
)

// Faults of an event id.
var (
	errNotAPosition = errors.New("Last-Event-ID is not an event id of this server")
	errOtherTable   = errors.New("Last-Event-ID belongs to another table's stream")
)

// IDs makes and reads event ids under a key. Processes whose clients go from one
// to the other need the same.
type IDs struct {
	block cipher.Block
	mark  [markBytes]byte
}

// NewIDs derives the key from secret; a nil one is made up.
func NewIDs(secret []byte) (*IDs, error) {
	if secret == nil {
		secret = make([]byte, 32)
		_, _ = rand.Read(secret) // never fails: it ends the process instead
	}
	derived, err := hkdf.Key(sha256.New, secret, nil, "wavehouse stream ids", 16+markBytes)
	if err != nil {
		return nil, fmt.Errorf("derive the key of stream ids: %w", err)
	}
	block, err := aes.NewCipher(derived[:16])
	if err != nil {
		return nil, fmt.Errorf("derive the key of stream ids: %w", err)
	}
	ids := &IDs{block: block, mark: [markBytes]byte(derived[16:])}
	ids.mark[0] = idVersion | ids.mark[0]&0x0f
	return ids, nil
}

// After is the event id with which a stream of t starts behind the chunk at p:
// every row of a later chunk is sent, and none up to it.
func (i *IDs) After(t mq.Topic, p mq.Position) string { return i.of(t).encode(after(p)) }

// of is the codec of one topic.
func (i *IDs) of(t mq.Topic) idCodec {
	return idCodec{ids: i, topic: fnv1a([]byte(t.Tenant.String()+"\x00"+t.Table)) << 8}
}

// idCodec reads and writes the event ids of one topic.
type idCodec struct {
	ids   *IDs
	topic uint32 // its hash, in the high 24 bits
}

// append appends the id of p.
func (c idCodec) append(dst []byte, p position) []byte {
	n := len(dst)
	// What is enciphered lies behind the id: a buffer of its own would be one
	// on the heap for each row.
	dst = slices.Grow(dst, idChars+rawIDBytes)[:n+idChars+rawIDBytes]
	raw := dst[n+idChars:]
	queue, place := p.Fold()
	copy(raw, c.ids.mark[:])
	block := raw[markBytes:]
	binary.BigEndian.PutUint32(block, c.topic)
	binary.BigEndian.PutUint32(block[3:], queue)
	binary.BigEndian.PutUint64(block[7:], min(place, maxPlace)<<16)
	row := min(p.row, idWhole)
	block[13], block[14], block[15] = byte(row>>16), byte(row>>8), byte(row)
	c.ids.block.Encrypt(block, block)
	base64.RawURLEncoding.Encode(dst[n:n+idChars], raw)
	return dst[:n+idChars]
}

// encode returns the id of p as text.
func (c idCodec) encode(p position) string { return string(c.append(nil, p)) }

// parse reads an id; the error is errNotAPosition or errOtherTable.
func (c idCodec) parse(id string) (resumption, error) {
	if isPlainID(id) {
		return resumption{foreign: true}, nil
	}
	if len(id) != idChars {
		return resumption{}, errNotAPosition
	}
	raw, err := base64.RawURLEncoding.DecodeString(id)
	switch {
	case err != nil || raw[0]&0xf0 != idVersion:
		return resumption{}, errNotAPosition
	case [markBytes]byte(raw) != c.ids.mark:
		return resumption{foreign: true}, nil
	}
	block := raw[markBytes:]
	c.ids.block.Decrypt(block, block)
	if binary.BigEndian.Uint32(block)&^0xff != c.topic {
		return resumption{}, errOtherTable
	}
	r := resumption{
		queue: binary.BigEndian.Uint32(block[3:]),
		place: binary.BigEndian.Uint64(block[7:]) >> 16,
		row:   uint32(block[13])<<16 | uint32(block[14])<<8 | uint32(block[15]),
	}
	if r.row == idWhole {
		r.row = wholeChunk
	}
	return r, nil
}

// resumption is what an id says: a position once it is known of which queue.
type resumption struct {
	queue uint32 // a hash
	place uint64
	row   uint32
	// foreign: the id was given out under another key, or by a version that did
	// not encipher ids. Where it was is not known.
	foreign bool
}

// in is the position in the queue that ends at tail; false when it is none of
// that queue, or ahead of it.
func (r resumption) in(tail mq.Position) (position, bool) {
	if r.foreign || r.row != wholeChunk && r.place == 0 {
		return position{}, false
	}
	at, ok := tail.Unfold(r.queue, r.place)
	return position{Position: at, row: r.row}, ok && !tail.Before(at)
}

// isPlainID recognises the ids of versions that did not encipher them. They can be
// made by anybody, who would learn from the answers how far the queue is: they are
// known, and lead nowhere.
func isPlainID(id string) bool {
	const version, least, most, check = 1, 11, 31, 3
	if base64.RawURLEncoding.DecodedLen(len(id)) > most {
		return false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(id)
	if err != nil || len(b) < least || b[0] != version {
		return false
	}
	body := b[:len(b)-check]
	sum := fnv1a(body)
	sum ^= sum >> 24
	return string(b[len(body):]) == string([]byte{byte(sum >> 16), byte(sum >> 8), byte(sum)})
}

// fnv1a is the 32-bit FNV-1a hash.
func fnv1a(b []byte) uint32 {
	h := fnv.New32a()
	_, _ = h.Write(b)
	return h.Sum32()
}
