package stream

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// wholeChunk is the row of a position that lies behind a chunk's last row.
const wholeChunk = math.MaxUint32

// position says what a reader has consumed: everything up to and including
// row of the chunk at Position. The zero value is before everything.
type position struct {
	mq.Position
	row uint32
}

// after is the position behind every row of the chunk at p.
func after(p mq.Position) position { return position{Position: p, row: wholeChunk} }

// midChunk reports whether rows of the position's own chunk remain.
func (p position) midChunk() bool { return p.row != wholeChunk && !p.IsZero() }

// from is where a replay that continues at p starts: just before p's chunk
// while rows of it remain.
func (p position) from() mq.Position {
	if p.midChunk() {
		return p.Prev()
	}
	return p.Position
}

// skip is how many rows of the chunk at q a reader at p has consumed; all is
// true when there is nothing left for it. Both are of one queue.
func (p position) skip(q mq.Position) (rows int, all bool) {
	switch order, _ := p.Compare(q); {
	case order < 0:
		return 0, false
	case order > 0 || !p.midChunk():
		return 0, true
	}
	return int(p.row) + 1, false
}

// Faults of an event id.
var (
	errNotAPosition = errors.New("Last-Event-ID is not an event id of this server")
	errOtherTable   = errors.New("Last-Event-ID belongs to another table's stream")
)

// An id is the base64url of: a version byte, four bytes of the topic's hash,
// the position and the row as varints (the row plus one, 0 for the whole
// chunk), and three bytes of a checksum over all that. The hash keeps an id
// from being used on another table; the checksum keeps noise and cut-off ids
// from being read as a place in the queue. Neither is a secret: a position
// shows nothing that the grant does not.
const (
	idVersion  = 1
	checkBytes = 3
	maxIDBytes = 64
)

// idCodec reads and writes the event ids of one topic.
type idCodec struct {
	prefix [5]byte
}

func newIDCodec(t mq.Topic) idCodec {
	var c idCodec
	c.prefix[0] = idVersion
	binary.BigEndian.PutUint32(c.prefix[1:], fnv1a([]byte(t.Tenant.String()+"\x00"+t.Table)))
	return c
}

// append appends the id of p.
func (c idCodec) append(dst []byte, p position) []byte {
	var raw [len(c.prefix) + 2*binary.MaxVarintLen64 + binary.MaxVarintLen32 + checkBytes]byte
	b := append(raw[:0], c.prefix[:]...)
	b = p.AppendVarint(b)
	b = binary.AppendUvarint(b, uint64(p.row+1)) // wholeChunk wraps to 0
	b = appendCheck(b)
	return base64.RawURLEncoding.AppendEncode(dst, b)
}

func appendCheck(b []byte) []byte {
	sum := fnv1a(b)
	sum ^= sum >> 24
	return append(b, byte(sum>>16), byte(sum>>8), byte(sum))
}

// fnv1a is the 32-bit FNV-1a hash. The library's keeps its input on the heap,
// which is a lot per row.
func fnv1a(b []byte) uint32 {
	h := uint32(2166136261)
	for _, c := range b {
		h = (h ^ uint32(c)) * 16777619
	}
	return h
}

// encode returns the id of p as text.
func (c idCodec) encode(p position) string { return string(c.append(nil, p)) }

// parse reads an id; the error is errNotAPosition or errOtherTable.
func (c idCodec) parse(id string) (position, error) {
	if len(id) > maxIDBytes {
		return position{}, errNotAPosition
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(id)
	if err != nil || len(b) < len(c.prefix)+3+checkBytes || b[0] != idVersion {
		return position{}, errNotAPosition
	}
	body := b[:len(b)-checkBytes]
	if string(appendCheck(body[:len(body):len(body)])) != string(b) {
		return position{}, errNotAPosition
	}
	if [len(c.prefix)]byte(b) != c.prefix {
		return position{}, errOtherTable
	}
	return c.parseNumbers(body[len(c.prefix):], id)
}

func (c idCodec) parseNumbers(b []byte, id string) (position, error) {
	at, b, ok := mq.ConsumeVarint(b)
	if !ok {
		return position{}, errNotAPosition
	}
	row, size := binary.Uvarint(b)
	p := position{Position: at, row: uint32(row) - 1}
	// One spelling per position: what does not encode back is not ours. A row
	// of a chunk needs a chunk.
	if size < 1 || size != len(b) || row > math.MaxUint32 || c.encode(p) != id || (p.row != wholeChunk && !at.Prev().Before(at)) {
		return position{}, errNotAPosition
	}
	return p, nil
}
