package jetstream

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

// ErrNoMessage says that the stream holds no message that the read asks for, or it
// cannot read the one it holds; the server does not tell which.
var ErrNoMessage = errors.New("no such message")

const (
	// ReadBytes bounds one read from a stream.
	ReadBytes = 1 << 20
	// ReadBatch is that bound in messages.
	ReadBatch = 256
	// APITimeout bounds one request to the server.
	APITimeout = 5 * time.Second
	// maxReads bounds reads under way, and with ReadBytes their memory.
	maxReads = 16
)

// Stored is one message as read from a stream.
type Stored struct {
	Seq     uint64
	At      time.Time
	Subject string
	Header  nats.Header
	Data    []byte
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

// Reader reads messages by sequence, with no state at the server.
type Reader struct {
	nc     *nats.Conn
	prefix string
	slots  chan struct{}

	mu    sync.Mutex
	calls map[string]chan *nats.Msg
	next  uint64
}

// NewReader subscribes to answers on nc, which the caller closes.
func NewReader(nc *nats.Conn) (*Reader, error) {
	r := &Reader{
		nc: nc, prefix: nats.NewInbox() + ".",
		slots: make(chan struct{}, maxReads), calls: map[string]chan *nats.Msg{},
	}
	sub, err := nc.Subscribe(r.prefix+"*", r.receive)
	if err == nil {
		// What is pending is bounded by the reads under way.
		err = sub.SetPendingLimits(-1, -1)
	}
	if err != nil {
		return nil, fmt.Errorf("subscribe to reads: %w", err)
	}
	return r, nil
}

func (r *Reader) receive(m *nats.Msg) {
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

// One reads the message with a sequence.
func (r *Reader) One(ctx context.Context, stream string, seq uint64) (Stored, error) {
	msgs, err := r.read(ctx, stream, readRequest{Seq: seq})
	if err != nil {
		return Stored{}, err
	}
	return msgs[0], nil
}

// From reads up to batch messages from seq on, of one subject unless "", and
// stops early after maxBytes. It returns ErrNoMessage rather than nothing.
func (r *Reader) From(ctx context.Context, stream, subject string, seq uint64, batch, maxBytes int) ([]Stored, error) {
	return r.read(ctx, stream, readRequest{
		Seq: max(seq, 1), NextFor: subject, Batch: min(batch, ReadBatch), MaxBytes: maxBytes,
	})
}

// Since returns the first message stored at or after at.
func (r *Reader) Since(ctx context.Context, stream string, at time.Time) (Stored, error) {
	at = at.UTC()
	msgs, err := r.read(ctx, stream, readRequest{StartTime: &at, NextFor: ">"})
	if err != nil {
		return Stored{}, err
	}
	return msgs[0], nil
}

// Replay calls handle with a subject's messages from sequence next to last, in
// order and at its pace. Whole is asked after every read whether the stream
// still has all from a sequence on.
func (r *Reader) Replay(ctx context.Context, stream, subject string, next, last uint64,
	whole func(from uint64) error, handle func(*Stored) error,
) error {
	for next <= last {
		msgs, err := r.From(ctx, stream, subject, next, ReadBatch, ReadBytes)
		if gone := whole(next); gone != nil {
			return gone
		}
		if errors.Is(err, ErrNoMessage) {
			return nil
		}
		if err != nil {
			return err
		}
		for i := range msgs {
			if msgs[i].Seq > last {
				return nil
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := handle(&msgs[i]); err != nil {
				return err
			}
			next = msgs[i].Seq + 1
		}
	}
	return nil
}

func (r *Reader) read(ctx context.Context, stream string, q readRequest) ([]Stored, error) {
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

func (r *Reader) open(ch chan *nats.Msg) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next++
	token := strconv.FormatUint(r.next, 36)
	r.calls[token] = ch
	return token
}

func (r *Reader) close(token string) {
	r.mu.Lock()
	delete(r.calls, token)
	r.mu.Unlock()
}

func (r *Reader) collect(ctx context.Context, stream string, batch bool, ch chan *nats.Msg) ([]Stored, error) {
	late := time.NewTimer(APITimeout)
	defer late.Stop()
	var out []Stored
	for {
		select {
		case m := <-ch:
			switch status := m.Header.Get("Status"); status {
			case "":
			case "204":
				return out, nil
			case "404":
				return nil, ErrNoMessage
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
			late.Reset(APITimeout)
		case <-late.C:
			return nil, fmt.Errorf("read stream %s: no answer in %s", stream, APITimeout)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func parseStored(m *nats.Msg) (Stored, error) {
	seq, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	if err != nil {
		return Stored{}, fmt.Errorf("message sequence: %w", err)
	}
	at, err := time.Parse(time.RFC3339Nano, m.Header.Get("Nats-Time-Stamp"))
	if err != nil {
		return Stored{}, fmt.Errorf("message %d time: %w", seq, err)
	}
	return Stored{Seq: seq, At: at, Subject: m.Header.Get("Nats-Subject"), Header: m.Header, Data: m.Data}, nil
}
