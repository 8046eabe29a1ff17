// Broadcaster is the floor of a stream server: what is posted to it goes to
// every open stream. It has no history, no authorization and no topics.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// backlog is how many events may wait for one reader; a full one holds the
// publisher up, so nothing is lost.
const backlog = 64

type hub struct {
	mu   sync.Mutex
	subs map[chan []byte]struct{}
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	h := &hub{subs: make(map[chan []byte]struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /publish", h.publish)
	mux.HandleFunc("GET /stream", h.stream)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	fmt.Println(listener.Addr())
	fmt.Fprintln(os.Stderr, server.Serve(listener))
}

// publish sends the body in the envelope that a row of a table has, so that
// both servers write the same number of bytes.
func (h *hub) publish(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	event := fmt.Appendf(nil, "id: AVelVcdNAQAbMUUxyzxyzx\ndata: {\"table\":\"events_1\",\"received_at\":%q,\"row\":%s}\n\n",
		time.Now().UTC().Format("2006-01-02T15:04:05.000000Z"), body)
	h.mu.Lock()
	for ch := range h.subs {
		ch <- event
	}
	h.mu.Unlock()
	_, _ = io.WriteString(w, "{\"ok\":true}\n")
}

func (h *hub) stream(w http.ResponseWriter, r *http.Request) {
	ch := make(chan []byte, backlog)
	h.mu.Lock()
	h.subs[ch] = struct{}{}
	h.mu.Unlock()
	defer h.leave(ch)
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	_, _ = io.WriteString(w, ": connected\n\n")
	_ = control.Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case event := <-ch:
			if err := writeAll(w, event, ch); err != nil {
				return
			}
			_ = control.Flush()
		}
	}
}

// writeAll writes an event and those that wait behind it, for one flush.
func writeAll(w io.Writer, event []byte, ch <-chan []byte) error {
	for {
		if _, err := w.Write(event); err != nil {
			return err
		}
		select {
		case event = <-ch:
		default:
			return nil
		}
	}
}

// leave drains the channel until the publisher knows that it is gone.
func (h *hub) leave(ch chan []byte) {
	left := make(chan struct{})
	go func() {
		h.mu.Lock()
		delete(h.subs, ch)
		h.mu.Unlock()
		close(left)
	}()
	for {
		select {
		case <-ch:
		case <-left:
			return
		}
	}
}
