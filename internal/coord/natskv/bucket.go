package natskv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrRevision says that a key is certainly not at the revision that was named,
// and was not changed.
var ErrRevision = errors.New("key is at another revision")

// Entry is a key's value.
type Entry struct {
	Key   string
	Value []byte
	// Revision grows with every change of any key of the bucket.
	Revision uint64
}

// Bucket is where leases are kept. Reads may be of a while ago; a change is made
// at the revision that it names, or not at all.
type Bucket interface {
	// Get reads a key; ok is false when it was never set.
	Get(ctx context.Context, key string) (e Entry, ok bool, err error)
	// List reads all keys that begin with prefix, which ends with a dot, and have
	// one token more.
	List(ctx context.Context, prefix string) ([]Entry, error)
	// Update sets a key that is at a revision, 0 for one that was never set, and
	// returns the new one. The error wraps ErrRevision when it is at another; any
	// other leaves open whether the key is set, or will be.
	Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error)
}

// natsBucket is a KV bucket of a NATS cluster. Its operator made it.
type natsBucket struct {
	nc   *nats.Conn
	js   jetstream.JetStream
	name string
}

func (b natsBucket) Get(ctx context.Context, key string) (Entry, bool, error) {
	all, err := b.read(ctx, map[string]any{"last_by_subj": b.subject(key)})
	if err != nil || len(all) == 0 {
		return Entry{}, false, err
	}
	return all[0], true, nil
}

func (b natsBucket) List(ctx context.Context, prefix string) ([]Entry, error) {
	return b.read(ctx, map[string]any{"multi_last": []string{b.subject(prefix + "*")}})
}

func (b natsBucket) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	ack, err := b.js.Publish(ctx, b.subject(key), value,
		jetstream.WithExpectLastSequencePerSubject(revision), jetstream.WithExpectStream(b.stream()), jetstream.WithRetryAttempts(0))
	if err != nil {
		if refused, ok := errors.AsType[*jetstream.APIError](err); ok && (refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
			refused.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant) {
			err = fmt.Errorf("%w: %w", ErrRevision, err)
		}
		return 0, fmt.Errorf("set %s of bucket %s: %w", key, b.name, err)
	}
	return ack.Sequence, nil
}

func (b natsBucket) stream() string { return "KV_" + b.name }

func (b natsBucket) subject(key string) string { return "$KV." + b.name + "." + key }

// read asks for messages by a direct get, which any replica answers, and which
// needs no consumer.
func (b natsBucket) read(ctx context.Context, request map[string]any) ([]Entry, error) {
	all, err := b.messages(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("read bucket %s: %w", b.name, err)
	}
	return all, nil
}

func (b natsBucket) messages(ctx context.Context, request map[string]any) ([]Entry, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	inbox, err := b.nc.SubscribeSync(b.nc.NewInbox())
	if err != nil {
		return nil, err
	}
	defer func() { _ = inbox.Unsubscribe() }()
	if err := b.nc.PublishRequest("$JS.API.DIRECT.GET."+b.stream(), inbox.Subject, body); err != nil {
		return nil, err
	}
	_, several := request["multi_last"]
	var all []Entry
	for {
		m, err := inbox.NextMsgWithContext(ctx)
		if err != nil {
			return nil, err
		}
		switch status := m.Header.Get("Status"); status {
		case "":
		case "204", "404": // the end, or nothing at all
			return all, nil
		default:
			return nil, fmt.Errorf("status %s %s", status, m.Header.Get("Description"))
		}
		revision, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("revision: %w", err)
		}
		key := strings.TrimPrefix(m.Header.Get("Nats-Subject"), b.subject(""))
		all = append(all, Entry{Key: key, Value: m.Data, Revision: revision})
		if !several {
			return all, nil
		}
	}
}
