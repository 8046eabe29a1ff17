package jetstream

import (
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/wavehouse/wavehouse/internal/excerpt"
	"github.com/wavehouse/wavehouse/internal/mq"
)

// Header names of a dead letter.
const (
	headerError      = "Dlq-Error"
	headerCode       = "Dlq-Code"
	headerAt         = "Dlq-At"
	headerRowArrived = "Dlq-Received"
	headerSource     = "Dlq-Source"
)

// MaxErrorBytes is how much of a dead letter's error text is kept.
const MaxErrorBytes = 4 << 10

// EncodeLetter returns the headers of a dead letter; its row is the body.
func EncodeLetter(l *mq.DeadLetter) nats.Header {
	h := nats.Header{}
	putRows(h, &l.Header)
	put(h, headerError, escapeText(excerpt.Cut(l.Error, MaxErrorBytes)))
	put(h, headerCode, escapeText(excerpt.Cut(l.Code, MaxErrorBytes)))
	put(h, headerAt, l.At.UTC().Format(time.RFC3339Nano))
	if !l.Received.IsZero() {
		put(h, headerRowArrived, l.Received.UTC().Format(time.RFC3339Nano))
	}
	put(h, headerSource, l.Source.String()+"."+strconv.Itoa(l.SourceRow))
	return h
}

// DecodeLetter reads a stored dead letter; what is unreadable stays zero.
func DecodeLetter(subject string, h nats.Header, row []byte) mq.DeadLetter {
	l := mq.DeadLetter{Row: row}
	l.Topic, _ = ParseTopic(subject)
	l.Header, _ = takeRows(h)
	l.Received, _ = time.Parse(time.RFC3339Nano, first(h, headerRowArrived))
	l.Error = unescapeText(first(h, headerError))
	l.Code = unescapeText(first(h, headerCode))
	l.At, _ = time.Parse(time.RFC3339Nano, first(h, headerAt))
	l.Source, l.SourceRow = parseSource(first(h, headerSource))
	return l
}

func parseSource(s string) (mq.Position, int) {
	place, at, _ := cutLast(s)
	pos, err := mq.ParsePosition(place)
	row, err2 := strconv.Atoi(at)
	if err != nil || err2 != nil {
		return mq.Position{}, 0
	}
	return pos, row
}
