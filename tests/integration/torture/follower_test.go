package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/wavehouse/wavehouse/internal/stream/streamtest"
)

// follower reads a table's stream, and comes back with the last id whenever it
// is cut off.
type follower struct {
	table *table
	url   func() string

	mu   sync.Mutex
	seen map[int]int
	gaps []string
}

// follow begins to read; it ends with the test.
func follow(t *testing.T, url func() string, tb *table) *follower {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f := &follower{table: tb, url: url, seen: map[int]int{}}
	done := make(chan struct{})
	opened := make(chan struct{})
	go func() {
		defer close(done)
		last := ""
		for begun := false; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
			stream, err := f.open(ctx, last)
			if err != nil {
				continue
			}
			if !begun {
				begun = true
				close(opened)
			}
			last = f.read(stream)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	<-opened
	return f
}

func (f *follower) open(ctx context.Context, last string) (*streamtest.Stream, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url()+"/v1/stream?table="+url.QueryEscape(f.table.name), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("X-Tenant-ID", f.table.tenant)
	return streamtest.Open(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, request, last)
}

// read notes what comes until the connection ends, and returns the last id.
func (f *follower) read(stream *streamtest.Stream) (last string) {
	defer stream.Close()
	for {
		frame, err := stream.Next()
		if err != nil {
			return stream.LastID()
		}
		f.note(frame)
	}
}

func (f *follower) note(frame streamtest.Frame) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if frame.Event == "gap" {
		f.gaps = append(f.gaps, frame.Data)
	}
	event, err := frame.Row()
	if err != nil {
		return
	}
	var r struct{ N int }
	if json.Unmarshal(event.Row, &r) == nil {
		f.seen[r.N]++
	}
}

// account says what is missing of the rows, and what came more than once. A
// stream that was told of a gap may miss rows.
func (f *follower) account(rows []int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	missing, repeated := 0, 0
	for _, n := range rows {
		if f.seen[n] == 0 {
			missing++
		}
	}
	for _, times := range f.seen {
		if times > 1 {
			repeated++
		}
	}
	if repeated > 0 || missing > 0 && len(f.gaps) == 0 {
		return fmt.Errorf("stream of %s: %d of %d answered rows missing, %d repeated, gaps %v", f.table, missing, len(rows), repeated, f.gaps)
	}
	return nil
}

// text sums up what was seen.
func (f *follower) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprintf("stream of %s: %d rows, gaps %v", f.table, len(f.seen), f.gaps)
}

// forget drops what was seen.
func (f *follower) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.seen)
	f.gaps = nil
}
