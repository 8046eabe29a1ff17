// Package cache holds results of queries: the contract of a store, and Reads,
// through which equal questions that miss are asked once.
//
// A result is bound to the tables that it was read from. What is written to one
// of them is told with Invalidate, and from then on no result that may lack it
// is given out. This holds because a ticket is taken before a query runs: a
// result can never pass for newer than its data.
package cache

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"time"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Cache is a store of results, of this process or shared by several. Its methods
// may be called by many goroutines. A store that cannot be reached misses, and
// fills nothing.
type Cache interface {
	// Lookup returns the value of the key, nil on a miss. The ticket is taken
	// before anything else: a value made after Lookup returned may be filled
	// under it.
	Lookup(ctx context.Context, key Key) (*Value, Ticket)
	// Current reports whether none of the tables was invalidated since the ticket
	// was taken.
	Current(ctx context.Context, ticket Ticket, tables []string) bool
	// Fill keeps the value for ttl at most. One that is too large, or no longer
	// current, is dropped. The value must not be changed afterwards.
	Fill(ctx context.Context, ticket Ticket, value *Value, ttl time.Duration)
	// Invalidate drops the values of each of the tenants that depend on one of
	// the tables. It is called after the write can be read, and may wait for
	// the store: never call it on the way of the write.
	//
	// An error says that it did not reach the store. The cache keeps it and tries
	// again while Run runs; until it lands, this process is given nothing that
	// depends on those tables, and fills nothing.
	Invalidate(ctx context.Context, ids []tenant.ID, tables []string) error
	// InvalidateTenants drops all values of the tenants, as Invalidate does.
	InvalidateTenants(ctx context.Context, ids []tenant.ID) error
	// Run does the cache's housekeeping until ctx ends.
	Run(ctx context.Context) error
	// Close ends the cache, which is not used afterwards.
	Close(ctx context.Context) error
}

// Key is a question: equal keys have equal answers while nothing is written.
type Key struct {
	Tenant tenant.ID
	Sum    [sha256.Size]byte
}

// Ticket remembers what a result of the key may know. It is opaque to callers.
type Ticket struct {
	Key Key
	// Seen counts what this process invalidated before the ticket was taken.
	Seen uint64
	// Store is for a store that processes share: what it knew then. It has no Life
	// when the store was out of reach.
	Store Moment
	// Taken is when, where the store was out of reach.
	Taken time.Time
}

// Moment is one in the life of a shared store's versions.
type Moment struct {
	// Epoch and Life name the versions; under other names nothing is known.
	Epoch, Life string
	// Count is how many invalidations they knew.
	Count int64
	// Own counts those of this process.
	Own uint64
}

// Leader is a Cache through which processes ask a question once.
type Leader interface {
	// Lead is Lookup by someone who is about to ask ClickHouse. It waits while
	// another process asks the same. Whoever gets no value asks, and calls done
	// once the answer is filled or there is none.
	Lead(ctx context.Context, key Key) (value *Value, ticket Ticket, done func())
}

// KeyWriter hashes the parts of a question.
type KeyWriter struct {
	tenant tenant.ID
	hash   hash.Hash // nil while everything fits buf
	buf    []byte
}

// Sizes of a KeyWriter's buffer, in bytes: what a usual question takes, and
// what is held at most.
const (
	usualQuestion = 1536
	maxBuffered   = 4 << 10
)

// NewKey begins the key of a tenant's question.
func NewKey(id tenant.ID) *KeyWriter {
	return &KeyWriter{tenant: id, buf: make([]byte, 0, usualQuestion)}
}

// Add adds a part. Parts are told apart by their length: "a", "bc" is another
// question than "ab", "c".
func (k *KeyWriter) Add(part string) *KeyWriter {
	k.buf = binary.AppendUvarint(k.buf, uint64(len(part)))
	k.buf = append(k.buf, part...)
	if len(k.buf) > maxBuffered {
		k.flush()
	}
	return k
}

// AddBytes is Add of bytes.
func (k *KeyWriter) AddBytes(part []byte) *KeyWriter {
	k.buf = binary.AppendUvarint(k.buf, uint64(len(part)))
	k.flush()
	_, _ = k.hash.Write(part)
	return k
}

func (k *KeyWriter) flush() {
	if k.hash == nil {
		k.hash = sha256.New()
	}
	_, _ = k.hash.Write(k.buf)
	k.buf = k.buf[:0]
}

// Key returns the key of what was added.
func (k *KeyWriter) Key() Key {
	if k.hash == nil {
		return Key{Tenant: k.tenant, Sum: sha256.Sum256(k.buf)}
	}
	k.flush()
	key := Key{Tenant: k.tenant}
	k.hash.Sum(key.Sum[:0])
	return key
}
