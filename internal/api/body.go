package api

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/wavehouse/wavehouse/internal/fairshare"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

const (
	// maxIngestBody bounds a decoded ingest body.
	maxIngestBody = 16 << 20
	// maxDocument bounds a query document and an ops statement.
	maxDocument = 1 << 20
	// maxZstdWindow bounds what a zstd frame may ask the decoder to hold.
	maxZstdWindow = 8 << 20
	// bodyTimeout bounds how long a client may take to send a body.
	bodyTimeout = 60 * time.Second
	// bodyStart is what a body of unknown size is read into first.
	bodyStart = 32 << 10
)

// operatorBodies is under what the bodies of ops routes are counted.
const operatorBodies tenant.ID = ""

// bodyReader reads request bodies, decoded, within a limit for each and a
// limit for all of them together, shared between tenants.
type bodyReader struct {
	memory *fairshare.Bytes
}

func newBodyReader(total int64) *bodyReader {
	return &bodyReader{memory: fairshare.New(total, total)}
}

// read returns the decoded body and a function that gives its memory back,
// which the caller must call once it no longer uses the body.
func (b *bodyReader) read(w http.ResponseWriter, r *http.Request, id tenant.ID, limit int64) (body []byte, release func(), err error) {
	if r.ContentLength > limit && r.Header.Get("Content-Encoding") == "" {
		return nil, nil, tooLarge(limit)
	}
	// The deadline is for the body alone: it is lifted once the body is here.
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout))
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()

	reader, encoding, err := decoder(r)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = reader.Close() }()
	body, err = b.readAll(reader, id, limit, r.ContentLength, encoding)
	held := int64(cap(body))
	if err != nil {
		b.memory.Give(id, held)
		return nil, nil, err
	}
	return body, func() { b.memory.Give(id, held) }, nil
}

// readAll returns what was read, with an error too. The capacity of the body is
// what was taken of the memory.
func (b *bodyReader) readAll(reader io.Reader, id tenant.ID, limit, sizeHint int64, encoding string) (body []byte, err error) {
	first := int64(bodyStart)
	switch {
	case sizeHint >= 0 && encoding == "":
		first = max(sizeHint, 511) + 1
	case sizeHint >= 0:
		first = max(4*sizeHint, 512)
	}
	for next := min(first, limit+1); ; next = min(2*next, limit+1) {
		// The buffer before is held until it is copied.
		if !b.memory.Take(id, next) {
			return body, problem(http.StatusServiceUnavailable, "queue.full",
				"too many request bodies are being read").retryable(time.Second)
		}
		grown := make([]byte, next)
		copy(grown, body)
		b.memory.Give(id, int64(cap(body)))
		n, readErr := io.ReadFull(reader, grown[len(body):])
		body = grown[: len(body)+n : next]
		switch {
		case errors.Is(readErr, io.EOF), errors.Is(readErr, io.ErrUnexpectedEOF) && !truncated(readErr):
			return body, nil
		case readErr != nil:
			return body, bodyProblem(readErr, encoding)
		case int64(len(body)) > limit:
			return body, tooLarge(limit)
		}
	}
}

// cutShort marks an unexpected end that the decoder met, so that it is not
// taken for the end that io.ReadFull reports.
type cutShort struct{ error }

func truncated(err error) bool {
	var cut cutShort
	return errors.As(err, &cut)
}

// decoder undoes the body's Content-Encoding.
func decoder(r *http.Request) (io.ReadCloser, string, error) {
	encodings := r.Header.Values("Content-Encoding")
	encoding := strings.ToLower(strings.TrimSpace(strings.Join(encodings, ",")))
	switch encoding {
	case "", "identity":
		return decoded(r.Body, r.Body), "", nil
	case "gzip", "x-gzip":
		reader, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, encoding, bodyProblem(err, "gzip")
		}
		return decoded(reader, reader), "gzip", nil
	case "zstd":
		reader, err := zstd.NewReader(r.Body, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, encoding, bodyProblem(err, "zstd")
		}
		closer := reader.IOReadCloser()
		return decoded(closer, closer), "zstd", nil
	}
	return nil, encoding, problem(http.StatusUnsupportedMediaType, "encoding.unsupported",
		fmt.Sprintf("content encoding %q is not supported: send gzip, zstd or none", encoding))
}

func decoded(r io.Reader, c io.Closer) io.ReadCloser {
	return struct {
		io.Reader
		io.Closer
	}{endMarker{r}, c}
}

// endMarker tells a body that ends too early from one that ends.
type endMarker struct{ io.Reader }

func (e endMarker) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = cutShort{err}
	}
	return n, err
}

func bodyProblem(err error, encoding string) *Problem {
	var tooBig *http.MaxBytesError
	switch {
	case errors.As(err, &tooBig):
		return tooLarge(tooBig.Limit)
	case encoding != "" && !isNetwork(err):
		return problem(http.StatusBadRequest, "body.malformed",
			fmt.Sprintf("the body is not valid %s: %v", encoding, plainCause(err)))
	}
	return problem(http.StatusBadRequest, "body.incomplete", "the body did not arrive whole").because(err)
}

func plainCause(err error) error {
	var cut cutShort
	if errors.As(err, &cut) {
		return errors.New("it is cut short")
	}
	return err
}

func isNetwork(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout)
}

func tooLarge(limit int64) *Problem {
	return problem(http.StatusRequestEntityTooLarge, "body.too_large",
		fmt.Sprintf("the body is over %d bytes once decoded", limit))
}

// isBlank reports whether the body holds nothing but JSON white space.
func isBlank(body []byte) bool { return len(bytes.TrimSpace(body)) == 0 }
