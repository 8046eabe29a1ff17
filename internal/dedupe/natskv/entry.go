package natskv

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/wavehouse/wavehouse/internal/dedupe"
)

// A key's value is a byte that says what it is, the token of the call that wrote it,
// and beside a committed id its value. A key that was given up has none for a
// second, and is then gone.
const (
	kindReserved  = 'r'
	kindCommitted = 'c'
	tokenBytes    = len(dedupe.Owner{}) + 8

	headerOperation = "KV-Operation"
	headerMarker    = "Nats-Marker-Reason" // the servers' own, for what is over
	tombstoneLife   = time.Second
)

// attemptTimeout bounds one request: the answer may be lost.
const attemptTimeout = 2 * time.Second

// keyOf is an id's key: the tenant, and a hash of table and id, so that any id has
// a short one that is valid.
func keyOf(s dedupe.Scope, id string) string {
	h := sha256.New()
	h.Write(binary.AppendUvarint(nil, uint64(len(s.Table))))
	h.Write([]byte(s.Table))
	h.Write([]byte(id))
	return string(s.Tenant) + "." + base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// newToken is of one call of an owner: it begins with the owner, and tells an
// attempt whose answer was lost from another's reservation.
func newToken(o dedupe.Owner) []byte {
	token := make([]byte, tokenBytes)
	copy(token, o[:])
	_, _ = rand.Read(token[len(o):]) // never fails
	return token
}

// entry is what a key says. It is absent when nobody has the id; revision is then
// what is there to be replaced.
type entry struct {
	revision uint64
	absent   bool
	kind     byte
	token    []byte
	value    []byte
}

func (e entry) reservedBy(o dedupe.Owner) bool {
	return !e.absent && e.kind == kindReserved && bytes.HasPrefix(e.token, o[:])
}

var errEntry = errors.New("a key that this version cannot read")

// read reads a key. Any replica answers, perhaps with what was a moment ago: nothing
// is written because of it but at the revision that it names.
func (s *Store) read(ctx context.Context, key string) (entry, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	m, err := (*s.handle.Load()).GetLastMsgForSubject(ctx, s.subject(key))
	s.metrics.request("read", err)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return entry{absent: true}, nil
	case err != nil:
		return entry{}, fmt.Errorf("read a key: %w", err)
	case m.Header.Get(headerOperation) != "" || m.Header.Get(headerMarker) != "":
		return entry{absent: true, revision: m.Sequence}, nil
	case len(m.Data) < 1+tokenBytes:
		return entry{}, errEntry
	}
	return entry{revision: m.Sequence, kind: m.Data[0], token: m.Data[1 : 1+tokenBytes], value: m.Data[1+tokenBytes:]}, nil
}

// errRevision says that a key is at another revision, and was not changed.
var errRevision = errors.New("the key is at another revision")

// write sets a key that is at a revision, 0 for one that is not there, for a time,
// 0 for ever. An error other than errRevision leaves open whether it is set.
func (s *Store) write(ctx context.Context, operation, key string, m *nats.Msg, revision uint64, life time.Duration) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	m.Subject = s.subject(key)
	opts := []jetstream.PublishOpt{
		jetstream.WithExpectLastSequencePerSubject(revision), jetstream.WithExpectStream(s.stream()), jetstream.WithRetryAttempts(0),
	}
	if life > 0 {
		opts = append(opts, jetstream.WithMsgTTL((life + time.Second - 1).Truncate(time.Second)))
	}
	ack, err := s.js.PublishMsg(ctx, m, opts...)
	if refused, ok := errors.AsType[*jetstream.APIError](err); ok && (refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
		refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant) {
		err = fmt.Errorf("%w: %w", errRevision, err)
	}
	s.metrics.request(operation, err)
	if err != nil {
		return 0, fmt.Errorf("write a key: %w", err)
	}
	return ack.Sequence, nil
}

func message(kind byte, token, value []byte) *nats.Msg {
	m := nats.NewMsg("")
	m.Data = append(append(append(make([]byte, 0, 1+len(token)+len(value)), kind), token...), value...)
	return m
}

func tombstone() *nats.Msg {
	m := nats.NewMsg("")
	m.Header.Set(headerOperation, "DEL")
	return m
}
