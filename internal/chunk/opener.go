// Package chunk opens what the queue holds: chunks, and dead letters, which are
// rows of chunks.
package chunk

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/wavehouse/wavehouse/internal/memo"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/record"
)

const (
	// maxForms bounds the forms that are remembered. A table has a few.
	maxForms = 8192
	// maxUnpacked bounds what a compressed body may unpack to.
	maxUnpacked = 16 << 20
)

// FormatError says that a chunk is of a version, a format or an encoding that
// is not read here. Other errors say that it is not what its header says.
type FormatError struct{ err error }

func (e *FormatError) Error() string { return e.err.Error() }
func (e *FormatError) Unwrap() error { return e.err }

func formatErrorf(format string, args ...any) error {
	return &FormatError{fmt.Errorf(format, args...)}
}

// Opener opens chunks. It is safe for concurrent use.
type Opener struct {
	zstd *zstd.Decoder

	mu    sync.Mutex // held while a form is made, so that there is one of each
	forms *memo.Memo[formKey, *Form]
}

type formKey struct{ format, columns string }

// NewOpener builds an Opener. It holds nothing that has to be closed.
func NewOpener() *Opener {
	// DecodeAll of one decoder may run concurrently; it starts no goroutines.
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxUnpacked))
	if err != nil {
		panic("chunk: zstd decoder options: " + err.Error()) // they are fixed
	}
	return &Opener{zstd: decoder, forms: memo.New[formKey, *Form](maxForms)}
}

// Open judges a chunk by its header and unpacks its body. The rows are not
// looked at.
func (o *Opener) Open(c mq.Chunk) (Chunk, error) {
	switch {
	case c.Version == "":
		return Chunk{}, formatErrorf("the message is not a chunk")
	case c.Version != mq.Version:
		return Chunk{}, formatErrorf("unknown chunk version %q", c.Version)
	case c.Rows <= 0:
		return Chunk{}, fmt.Errorf("a chunk of %d rows", c.Rows)
	case len(c.Body) == 0:
		return Chunk{}, fmt.Errorf("a chunk of %d rows without a body", c.Rows)
	}
	form, err := o.Form(c.Header)
	if err != nil {
		return Chunk{}, err
	}
	body, err := o.unpack(c)
	if err != nil {
		return Chunk{}, err
	}
	var ids []string
	if c.IDs > 0 {
		if c.IDs > len(body) {
			return Chunk{}, fmt.Errorf("%d bytes of ids in a body of %d", c.IDs, len(body))
		}
		if ids, err = parseIDs(body[:c.IDs], c.Rows); err != nil {
			return Chunk{}, err
		}
		body = body[c.IDs:]
	}
	if c.Rows > len(body) {
		return Chunk{}, fmt.Errorf("a chunk of %d rows with a body of %d bytes", c.Rows, len(body))
	}
	return Chunk{Form: form, Body: body, Rows: c.Rows, IDs: ids}, nil
}

// OpenLetter returns a parked row as its form's Layout reads it.
func (o *Opener) OpenLetter(l *mq.DeadLetter) (*Form, []byte, error) {
	if l.Version != mq.Version {
		return nil, nil, formatErrorf("the letter is not a row of version %s", mq.Version)
	}
	form, err := o.Form(l.Header)
	if err != nil || !form.Text() {
		return form, l.Row, err
	}
	row, err := form.lines.AppendRows(nil, l.Row, 1)
	return form, row, err
}

func (o *Opener) unpack(c mq.Chunk) ([]byte, error) {
	switch c.Encoding {
	case "":
		return c.Body, nil
	case "zstd":
		body, err := o.zstd.DecodeAll(c.Body, nil)
		if err != nil {
			return nil, formatErrorf("zstd body: %w", err)
		}
		return body, nil
	}
	return nil, formatErrorf("unknown encoding %q", c.Encoding)
}

// Form returns the one form of a header. One that cannot be read is not
// remembered.
func (o *Opener) Form(h mq.Header) (*Form, error) {
	key := formKey{h.Format, h.Columns}
	if known, ok := o.forms.Get(key); ok {
		return known, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if known, ok := o.forms.Get(key); ok {
		return known, nil
	}
	// The header's text may be a part of the message.
	made, err := newForm(strings.Clone(h.Format), strings.Clone(h.Columns))
	if err != nil {
		return nil, err
	}
	o.forms.Put(formKey{made.Format, made.Columns}, made)
	return made, nil
}

func newForm(format, columns string) (f *Form, err error) {
	f = &Form{Format: format, Columns: columns}
	switch format {
	case mq.FormatRowBinary:
		f.Layout, err = record.ParseLayout(columns, time.UTC)
	case mq.FormatJSONCompactEachRow:
		if f.lines, err = record.ParseLines(columns, time.UTC); err == nil {
			f.Layout = f.lines.Layout()
		}
	default:
		err = formatErrorf("unknown format %q", format)
	}
	return f, err
}
