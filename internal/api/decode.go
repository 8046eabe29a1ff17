package api

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/klauspost/compress/zstd"
)

const (
	// maxZstdWindow bounds what a zstd frame may ask the decoder to hold, and
	// leastZstdWindow is what every frame of a body may.
	maxZstdWindow   = 8 << 20
	leastZstdWindow = 128 << 10
	// gunzipBytes is what undoing gzip takes, and unzstdBytes what undoing zstd
	// takes besides its window.
	gunzipBytes = 48 << 10
	unzstdBytes = 1 << 20
)

// decoded is a body without its Content-Encoding.
type decoded struct {
	io.Reader
	encoding string // "" is none
	close    func()
}

// Read tells a body that ends too early from one that ends.
func (d *decoded) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = cutShort{err}
	}
	return n, err
}

// cutShort marks an unexpected end that the decoder met, so that it is not
// taken for the end that io.ReadFull reports.
type cutShort struct{ error }

func truncated(err error) bool {
	var cut cutShort
	return errors.As(err, &cut)
}

// decode undoes a Content-Encoding. What the decoder holds is taken from the memory
// before there is one, until close.
func decode(body io.Reader, encodings []string, m *bodyMemory) (*decoded, error) {
	encoding := strings.ToLower(strings.TrimSpace(strings.Join(encodings, ",")))
	switch encoding {
	case "", "identity":
		return &decoded{Reader: body, close: func() {}}, nil
	case "gzip", "x-gzip":
		return gunzip(body, m)
	case "zstd":
		return unzstd(body, m)
	}
	return nil, problem(http.StatusUnsupportedMediaType, "encoding.unsupported",
		fmt.Sprintf("content encoding %q is not supported: send gzip, zstd or none", encoding))
}

func gunzip(body io.Reader, m *bodyMemory) (*decoded, error) {
	if err := m.take(gunzipBytes); err != nil {
		return nil, err
	}
	reader, err := gzip.NewReader(body)
	if err != nil {
		m.give(gunzipBytes)
		return nil, bodyProblem(err, "gzip")
	}
	return &decoded{reader, "gzip", func() { m.give(gunzipBytes) }}, nil
}

// unzstd makes a decoder for windows of the size that the body's first frame asks
// for.
func unzstd(body io.Reader, m *bodyMemory) (*decoded, error) {
	buffered := bufio.NewReaderSize(body, zstd.HeaderMaxSize)
	start, err := buffered.Peek(zstd.HeaderMaxSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, bodyProblem(err, "zstd")
	}
	var header zstd.Header
	window := uint64(leastZstdWindow)
	// One that does not parse is for the decoder to refuse.
	if header.Decode(start) == nil {
		window = max(window, header.WindowSize)
	}
	if window > maxZstdWindow {
		return nil, bodyProblem(zstd.ErrWindowSizeExceeded, "zstd")
	}
	size := zstdBytes(int64(window))
	if err := m.take(size); err != nil {
		return nil, err
	}
	reader, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window))
	if err != nil {
		m.give(size)
		return nil, bodyProblem(err, "zstd")
	}
	return &decoded{reader, "zstd", func() {
		reader.Close()
		m.give(size)
	}}, nil
}

// zstdBytes is what a decoder holds for a window.
func zstdBytes(window int64) int64 { return window + window/8 + min(4*window, unzstdBytes) }
