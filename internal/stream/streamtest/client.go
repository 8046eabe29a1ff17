// Package streamtest is a client of server-sent events for tests. It reads the
// wire as a browser's EventSource does, and keeps what a browser hides.
package streamtest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Frame is one block of the wire: what stands between two empty lines.
type Frame struct {
	// Comments are the lines that begin with a colon, without it.
	Comments []string
	// Retry is the retry field, "" for none.
	Retry string
	// Event is the event's type, "" for the default one.
	Event string
	// ID is the client's last event id after the block.
	ID string
	// HasID tells whether the block carried one.
	HasID bool
	// Data is the data field; HasData whether there was one: a block without
	// raises no event.
	Data    string
	HasData bool
}

// IsRow reports whether the frame is a row event.
func (f Frame) IsRow() bool { return f.HasData && f.Event == "" }

// Row is the data of a row event.
type Row struct {
	Table      string          `json:"table"`
	ReceivedAt string          `json:"received_at"`
	Row        json.RawMessage `json:"row"`
}

// Row decodes a row event's data.
func (f Frame) Row() (Row, error) {
	var r Row
	if !f.IsRow() {
		return r, fmt.Errorf("%q is not a row event", f.Event)
	}
	return r, json.Unmarshal([]byte(f.Data), &r)
}

// Gap is the data of a gap event.
type Gap struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Reason string `json:"reason"`
}

// Gap decodes a gap event's data.
func (f Frame) Gap() (Gap, error) {
	var g Gap
	if f.Event != "gap" {
		return g, fmt.Errorf("%q is not a gap event", f.Event)
	}
	return g, json.Unmarshal([]byte(f.Data), &g)
}

// EndReason decodes an end event's data, "" when the frame is none.
func (f Frame) EndReason() string {
	var e struct {
		Reason string `json:"reason"`
	}
	if f.Event != "end" || json.Unmarshal([]byte(f.Data), &e) != nil {
		return ""
	}
	return e.Reason
}

// Stream is an open stream. Close it.
type Stream struct {
	// Response is the server's answer; its body belongs to the stream.
	Response *http.Response

	r      *bufio.Reader
	cancel context.CancelFunc
	lastID string
}

// Open sends req and returns the stream when the answer is 200, else an
// *Refused. lastID is sent as Last-Event-ID unless it is "".
func Open(client *http.Client, req *http.Request, lastID string) (*Stream, error) {
	ctx, cancel := context.WithCancel(req.Context())
	req = req.Clone(ctx)
	req.Header.Set("Accept", "text/event-stream")
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := client.Do(req)
	if err != nil {
		cancel()
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer cancel()
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		if err != nil {
			return nil, err
		}
		return nil, &Refused{Status: resp.StatusCode, Header: resp.Header, Body: body}
	}
	return &Stream{Response: resp, r: bufio.NewReader(resp.Body), cancel: cancel, lastID: lastID}, nil
}

// Refused is an answer that opened no stream.
type Refused struct {
	Status int
	Header http.Header
	Body   []byte
}

func (r *Refused) Error() string { return fmt.Sprintf("status %d: %s", r.Status, r.Body) }

// LastID is what the client would reconnect with: the id of the last block
// that arrived whole.
func (s *Stream) LastID() string { return s.lastID }

// Close drops the connection.
func (s *Stream) Close() {
	s.cancel()
	_ = s.Response.Body.Close()
}

// Next reads a block. A block that the connection's end cuts off is dropped,
// as a browser does; the error is then io.EOF or the connection's.
func (s *Stream) Next() (Frame, error) {
	f := Frame{ID: s.lastID}
	var data []string
	for started := false; ; started = true {
		line, err := s.r.ReadString('\n')
		if err != nil {
			return Frame{}, err
		}
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if line == "" {
			if !started {
				continue
			}
			break
		}
		f.field(line, &data)
	}
	f.HasData = data != nil
	f.Data = strings.Join(data, "\n")
	s.lastID = f.ID
	return f, nil
}

func (f *Frame) field(line string, data *[]string) {
	name, value, _ := strings.Cut(line, ":")
	if name == "" {
		f.Comments = append(f.Comments, strings.TrimPrefix(value, " "))
		return
	}
	value = strings.TrimPrefix(value, " ")
	switch name {
	case "event":
		f.Event = value
	case "data":
		*data = append(*data, value)
	case "retry":
		f.Retry = value
	case "id":
		if !strings.Contains(value, "\x00") {
			f.ID, f.HasID = value, true
		}
	}
}

// NextEvent reads on to the next block that raises an event.
func (s *Stream) NextEvent() (Frame, error) {
	for {
		f, err := s.Next()
		if err != nil || f.HasData {
			return f, err
		}
	}
}
