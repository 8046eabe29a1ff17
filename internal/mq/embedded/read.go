package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// errNoMessage: the stream holds no message that the read asks for, or it
// cannot read the one it holds; the server does not tell which.
var errNoMessage = errors.New("no such message")

// stored is one message as read from a stream.
type stored struct {
	seq     uint64
	at      time.Time
	subject string
	header  nats.Header
	data    []byte
}

// readRequest is the server's direct-get request. With Batch it is answered
// by up to that many messages, in order, from Seq on.
type readRequest struct {
	Seq       uint64     `json:"seq,omitempty"`
	NextFor   string     `json:"next_by_subj,omitempty"`
	Batch     int        `json:"batch,omitempty"`
	MaxBytes  int        `json:"max_bytes,omitempty"`
	StartTime *time.Time `json:"start_time,omitempty"`
}

// reader reads messages by sequence, with no state at the server.
type reader struct {
	nc     *nats.Conn
	prefix string
	sub    *nats.Subscription
	slots  chan struct{}

	mu    sync.Mutex
	calls map[string]chan *nats.Msg
	next  uint64
}

func newReader(nc *nats.Conn) (*reader, error) {
	r := &reader{
		nc: nc, prefix: nats.NewInbox() + ".",
		slots: make(chan struct{}, maxReads), calls: map[string]chan *nats.Msg{},
	}
	sub, err := nc.Subscribe(r.prefix+"*", r.receive)
	if err != nil {
		return nil, fmt.Errorf("subscribe to reads: %w", err)
	}
	// What is pending is bounded by the reads under way.
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return nil, fmt.Errorf("subscribe to reads: %w", err)
	}
	r.sub = sub
	return r, nil
}

func (r *reader) receive(m *nats.Msg) {
	r.mu.Lock()
	ch := r.calls[strings.TrimPrefix(m.Subject, r.prefix)]
	r.mu.Unlock()
	if ch == nil {
		return
	}
	select {
	case ch <- m:
	default: // more than was asked for: the reader has left
	}
}

// one reads the message with a sequence.
func (r *reader) one(ctx context.Context, stream string, seq uint64) (stored, error) {
	msgs, err := r.read(ctx, stream, readRequest{Seq: seq})
	if err != nil {
		return stored{}, err
	}
	return msgs[0], nil
}

// from reads up to batch messages from seq on, of one subject unless "", and
// stops early after maxBytes. It returns errNoMessage rather than nothing.
func (r *reader) from(ctx context.Context, stream, subject string, seq uint64, batch, maxBytes int) ([]stored, error) {
	return r.read(ctx, stream, readRequest{
		Seq: max(seq, 1), NextFor: subject, Batch: min(batch, readBatch), MaxBytes: maxBytes,
	})
}

// since returns the first message stored at or after at.
func (r *reader) since(ctx context.Context, stream string, at time.Time) (stored, error) {
	at = at.UTC()
	msgs, err := r.read(ctx, stream, readRequest{StartTime: &at, NextFor: ">"})
	if err != nil {
		return stored{}, err
	}
	return msgs[0], nil
}

func (r *reader) read(ctx context.Context, stream string, q readRequest) ([]stored, error) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	body, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	ch := make(chan *nats.Msg, q.Batch+2)
	token := r.open(ch)
	defer r.close(token)
	if err := r.nc.PublishRequest("$JS.API.DIRECT.GET."+stream, r.prefix+token, body); err != nil {
		return nil, fmt.Errorf("read stream %s: %w", stream, err)
	}
	return r.collect(ctx, stream, q.Batch > 0, ch)
}

func (r *reader) open(ch chan *nats.Msg) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	token := strconv.FormatUint(r.next, 36)
	r.calls[token] = ch
	return token
}

func (r *reader) close(token string) {
	r.mu.Lock()
	delete(r.calls, token)
	r.mu.Unlock()
}

func (r *reader) collect(ctx context.Context, stream string, batch bool, ch chan *nats.Msg) ([]stored, error) {
	late := time.NewTimer(apiTimeout)
	defer late.Stop()
	var out []stored
	for {
		select {
		case m := <-ch:
			switch status := m.Header.Get("Status"); status {
			case "":
			case "204":
				return out, nil
			case "404":
				return nil, errNoMessage
			default:
				return nil, fmt.Errorf("read stream %s: status %s %s", stream, status, m.Header.Get("Description"))
			}
			s, err := parseStored(m)
			if err != nil {
				return nil, fmt.Errorf("read stream %s: %w", stream, err)
			}
			if out = append(out, s); !batch {
				return out, nil
			}
			late.Reset(apiTimeout)
		case <-late.C:
			return nil, fmt.Errorf("read stream %s: no answer in %s", stream, apiTimeout)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func parseStored(m *nats.Msg) (stored, error) {
	seq, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	if err != nil {
		return stored{}, fmt.Errorf("message sequence: %w", err)
	}
	at, err := time.Parse(time.RFC3339Nano, m.Header.Get("Nats-Time-Stamp"))
	if err != nil {
		return stored{}, fmt.Errorf("message %d time: %w", seq, err)
	}
	return stored{seq: seq, at: at, subject: m.Header.Get("Nats-Subject"), header: m.Header, data: m.Data}, nil
}
