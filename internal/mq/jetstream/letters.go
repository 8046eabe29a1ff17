package jetstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

const (
	maxPage      = 1000
	maxPageBytes = 8 << 20
)

// Sender sends messages to streams: a Publisher, or what stands before one.
type Sender interface {
	Send(ctx context.Context, m *nats.Msg, e *Pending) error
	SendPart(m *nats.Msg) error
}

// Letters keeps dead letters in a stream. A letter's id is the stream's epoch
// and the letter's sequence, so that an id of a stream that is gone never
// names another letter.
type Letters struct {
	LettersOptions
	// turn is held while letters come or go, so that what the stream drops by
	// itself can be told apart.
	turn chan struct{}
}

// LettersOptions of NewLetters.
type LettersOptions struct {
	JS    jetstream.JetStream
	Reads *Reader
	Send  Sender
	// Stream exists when letters are first parked or read.
	Stream string
	// Prefix is what the letters' subjects begin with.
	Prefix string
	// Shared says that the stream has the letters of many tenants, that other
	// processes use it too, and that nobody may purge it.
	Shared bool
	// MaxPayload is what the server takes for a message.
	MaxPayload func() int64
	// Timeout bounds the wait for the answer to a batch.
	Timeout time.Duration
	Now     func() time.Time
	Log     *slog.Logger
	// Stored is told of the newest letter that was answered for; nil tells
	// nobody. All others are required.
	Stored func(seq uint64)
}

// NewLetters asks nothing of the server.
func NewLetters(o LettersOptions) *Letters {
	return &Letters{LettersOptions: o, turn: make(chan struct{}, 1)}
}

// Alone runs do while no letter comes or goes.
func (l *Letters) Alone(ctx context.Context, do func() error) error {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
		return do()
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", mq.ErrUnavailable, context.Cause(ctx))
	}
}

// Counts counts a tenant's letters per table.
func (l *Letters) Counts(ctx context.Context, t tenant.ID) (map[string]uint64, error) {
	info, err := Info(ctx, l.JS, l.Stream, jetstream.WithSubjectFilter(l.Prefix+string(t)+".>"))
	if err != nil {
		return nil, fmt.Errorf("count dead letters: %w", err)
	}
	counts := make(map[string]uint64, len(info.State.Subjects))
	for subject, n := range info.State.Subjects {
		if t, ok := ParseTopic(subject); ok {
			counts[t.Table] += n
		}
	}
	return counts, nil
}

// List implements mq.DeadLetterStore for a topic. A page ends early after
// 8 MiB of rows.
func (l *Letters) List(ctx context.Context, t mq.Topic, limit int, cursor string) (mq.DeadLetterPage, error) {
	epoch, err := l.epoch(ctx)
	if err != nil {
		return mq.DeadLetterPage{}, err
	}
	after := uint64(0)
	if cursor != "" {
		of, seq, ok := parseLetterID(cursor)
		if !ok || of != epoch {
			return mq.DeadLetterPage{}, fmt.Errorf("list dead letters: %w: %q", mq.ErrBadCursor, cursor)
		}
		after = seq
	}
	return l.page(ctx, epoch, t, limit, after)
}

// CheckLimit refuses a page of none or too many letters.
func CheckLimit(limit int) error {
	if limit < 1 || limit > maxPage {
		return fmt.Errorf("list dead letters: limit %d: want 1 to %d", limit, maxPage)
	}
	return nil
}

// page reads one letter more than asked for, to know whether there is a next
// page.
func (l *Letters) page(ctx context.Context, epoch uint64, t mq.Topic, limit int, after uint64) (mq.DeadLetterPage, error) {
	var page mq.DeadLetterPage
	subject, bytes := Subject(l.Prefix, t), 0
	for {
		msgs, err := l.Reads.From(ctx, l.Stream, subject, after+1, limit+1-len(page.Letters), ReadBytes)
		if errors.Is(err, ErrNoMessage) {
			return page, nil
		}
		if err != nil {
			return mq.DeadLetterPage{}, fmt.Errorf("list dead letters: %w", err)
		}
		for i := range msgs {
			if len(page.Letters) == limit || bytes > maxPageBytes {
				page.Next = letterID(epoch, after)
				return page, nil
			}
			after = msgs[i].Seq
			bytes += len(msgs[i].Data)
			page.Letters = append(page.Letters, letter(&msgs[i], epoch))
		}
	}
}

// Get implements mq.DeadLetterStore for a tenant.
func (l *Letters) Get(ctx context.Context, t tenant.ID, id string) (mq.DeadLetter, bool, error) {
	seq, epoch, err := l.find(ctx, id)
	if err != nil || seq == 0 {
		return mq.DeadLetter{}, false, err
	}
	m, err := l.Reads.One(ctx, l.Stream, seq)
	if errors.Is(err, ErrNoMessage) {
		return mq.DeadLetter{}, false, nil
	}
	if err != nil {
		return mq.DeadLetter{}, false, fmt.Errorf("read dead letter %s: %w", id, err)
	}
	found := letter(&m, epoch)
	return found, found.Tenant == t, nil
}

// find returns the sequence of a letter, 0 when the id is none of this stream.
func (l *Letters) find(ctx context.Context, id string) (seq, epoch uint64, err error) {
	of, seq, ok := parseLetterID(id)
	if !ok {
		return 0, 0, nil
	}
	if epoch, err = l.epoch(ctx); err != nil || of != epoch {
		return 0, 0, err
	}
	return seq, epoch, nil
}

func (l *Letters) epoch(ctx context.Context) (uint64, error) {
	info, err := Info(ctx, l.JS, l.Stream)
	if err != nil {
		return 0, fmt.Errorf("open dead letters: %w", err)
	}
	return uint64(info.Created.UnixNano()), nil
}

func letter(m *Stored, epoch uint64) mq.DeadLetter {
	l := DecodeLetter(m.Subject, m.Header, m.Data)
	l.ID = letterID(epoch, m.Seq)
	return l
}

func letterID(epoch, seq uint64) string {
	return strconv.FormatUint(epoch, 36) + "-" + strconv.FormatUint(seq, 10)
}

func parseLetterID(id string) (epoch, seq uint64, ok bool) {
	a, b, found := strings.Cut(id, "-")
	if !found {
		return 0, 0, false
	}
	epoch, err1 := strconv.ParseUint(a, 36, 64)
	seq, err2 := strconv.ParseUint(b, 10, 64)
	return epoch, seq, err1 == nil && err2 == nil && seq > 0
}
