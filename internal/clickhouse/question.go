package clickhouse

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	// rowFormat has a text as its length and its bytes, whatever they are.
	rowFormat = "RowBinary"
	// maxText bounds one text of an answer, in bytes.
	maxText = 64 << 20
)

// EachRow asks a question of the server's own, whose answer has so many columns,
// all of them String, and calls take with each row; the slice is take's for the
// call alone. Questions wait for no statement, and query_timeout is not theirs.
// A failure of ClickHouse's is an *Error.
func (p *Pool) EachRow(ctx context.Context, sql string, columns int, take func(row []string) error) error {
	row := make([]string, columns)
	if p.core.native != nil {
		return p.eachNativeRow(ctx, sql, row, take)
	}
	started := time.Now()
	resp, err := p.run(ctx, Request{
		SQL: sql, Settings: map[string]string{"default_format": rowFormat}, question: true,
	}, p.core.questions, 0)
	p.observe("question", started, err)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.Format != rowFormat {
		return p.notClickHouse("answered in the format %q, not %s", resp.Format, rowFormat)
	}
	return p.readRows(ctx, resp.Body, row, take)
}

// Ping asks for a sign of life, for query_timeout at most. The failure is an
// *Error.
func (p *Pool) Ping(ctx context.Context) error {
	if p.config.QueryTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, p.config.QueryTimeout, errQueryTimeout)
		defer cancel()
	}
	return p.EachRow(ctx, "SELECT version()", 1, func([]string) error { return nil })
}

func (p *Pool) notClickHouse(format string, args ...any) *Error {
	return misdirected.error(Error{Status: http.StatusOK, Message: p.place(p.config.httpAddr()) + " is no ClickHouse: it " + fmt.Sprintf(format, args...)})
}

// readRows reads an answer in rowFormat.
func (p *Pool) readRows(ctx context.Context, body io.Reader, row []string, take func(row []string) error) error {
	in := bufio.NewReader(body)
	for {
		if _, err := in.Peek(1); errors.Is(err, io.EOF) {
			return nil
		}
		for i := range row {
			text, err := readText(in)
			if err != nil {
				return p.unread(ctx, err)
			}
			row[i] = text
		}
		if err := take(row); err != nil {
			return err
		}
	}
}

// unread is the failure of an answer that was not read to its end.
func (p *Pool) unread(ctx context.Context, err error) error {
	var own *Error
	switch {
	case errors.As(err, &own):
		return own
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return p.failure(ctx, p.config.httpAddr(), fmt.Errorf("read the answer: %w", io.ErrUnexpectedEOF))
	}
	return p.notClickHouse("answered a question with %v", err)
}

// readText reads a String.
func readText(in *bufio.Reader) (string, error) {
	n, err := binary.ReadUvarint(in)
	if err != nil {
		return "", err
	}
	if n > maxText {
		return "", fmt.Errorf("a text of %d bytes: want at most %d", n, maxText)
	}
	var text strings.Builder
	_, err = io.CopyN(&text, in, int64(n))
	return text.String(), err
}
