//go:build server

package wavehouse

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

type named struct {
	ID string `json:"id"`
}

// Through a network that fails, as WAVEHOUSE_URL does when X-Fault asks it to: what each
// stream brought, and what became of an insert, is printed as a line of JSON. The
// repository's end-to-end tests judge it.
func TestThroughAFaultyNetwork(t *testing.T) {
	cuts, err := strconv.Atoi(os.Getenv("WAVEHOUSE_CUTS"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	behind := func(fault string) *Client {
		c, err := New(os.Getenv("WAVEHOUSE_URL"), WithHeader("X-Fault", fault), WithRetries(20))
		if err != nil {
			panic(err)
		}
		return c
	}
	read := func(fault, table, last string) string {
		var ids []string
		for e, err := range Stream[named](ctx, behind(fault), table, Since(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC))) {
			if err != nil {
				return err.Error()
			}
			if id := e.Row.ID; e.Kind != EventRow {
				ids = append(ids, e.Kind)
			} else if ids = append(ids, id); id == last {
				break
			}
		}
		return strings.Join(ids, " ")
	}
	var out struct {
		Streams map[string]string `json:"streams"`
		Moving  string            `json:"moving"`
		Taken   int               `json:"taken"`
		Rows    int               `json:"rows"`
	}
	out.Streams = map[string]string{}
	var moving, streams sync.WaitGroup
	var mu sync.Mutex
	moving.Add(1)
	go func() {
		defer moving.Done()
		out.Moving = read("restart", "moving", "last")
	}()
	slots := make(chan struct{}, 200)
	for cut := range cuts {
		slots <- struct{}{}
		streams.Add(1)
		go func() {
			defer streams.Done()
			got := read(fmt.Sprint("cut-", cut), "pages", "last")
			mu.Lock()
			out.Streams[strconv.Itoa(cut)] = got
			mu.Unlock()
			<-slots
		}()
	}
	streams.Wait()
	result, err := Insert(ctx, behind("lost"), "stored", []named{{"1"}, {"2"}}, IdempotencyKey("go"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := Query[named](ctx, behind("busy"), "stored", Document{Columns: []string{"id"}, OrderBy: []OrderBy{{Column: "id"}}})
	if err != nil {
		t.Fatal(err)
	}
	moving.Wait()
	out.Taken, out.Rows = result.Succeeded+result.Duplicates, len(rows)
	line, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("saw %s\n", line)
}
