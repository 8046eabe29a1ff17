//go:build server

package wavehouse

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"
)

type page struct {
	EventID string `json:"event_id"`
	Page    string `json:"page"`
	N       any    `json:"n,omitempty"`
}

// Against a running server with a table `pages (event_id String, page String, n
// Int64)`: rows in, rows out, rows live, from a snapshot on. WAVEHOUSE_URL names it;
// the repository's end-to-end tests start one.
func TestAgainstAServer(t *testing.T) {
	address := os.Getenv("WAVEHOUSE_URL")
	if address == "" {
		t.Fatal("WAVEHOUSE_URL names no server")
	}
	c, err := New(address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	document := Document{
		Columns: []string{"event_id"}, OrderBy: []OrderBy{{Column: "event_id"}}, Filters: []Filter{{Column: "event_id", Op: "like", Value: "go-%"}},
	}
	before, err := QuerySnapshot[page](ctx, c, "pages", document)
	if err != nil {
		t.Fatal(err)
	}
	result, err := Insert(ctx, c, "pages", []page{{"go-1", "/1", 1}, {"go-2", "/2", "no number"}, {"go-3", "/3", int64(9007199254740993)}}, WaitInserted(30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if result.Succeeded != 2 || !result.Inserted || len(result.Failures) != 1 || result.Failures[0].Index != 1 || result.Failures[0].Column != "n" {
		t.Fatalf("%+v", result)
	}
	var live []string
	for e, err := range Stream[page](ctx, c, "pages", FromID(before.Position)) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == EventRow {
			live = append(live, e.Row.EventID)
		}
		if len(live) == 2 {
			break
		}
	}
	var stored []string
	for row, err := range Rows[page](ctx, c, "pages", document) {
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, row.EventID)
	}
	if want := []string{"go-1", "go-3"}; !slices.Equal(live, want) || !slices.Equal(stored, want) {
		t.Fatal(live, stored)
	}
	type n struct {
		N int64 `json:"n"`
	}
	big, err := Query[n](ctx, c, "pages", Document{Columns: []string{"n"}, Filters: []Filter{{Column: "event_id", Op: "eq", Value: "go-3"}}})
	if err != nil || len(big) != 1 || big[0].N != 9007199254740993 {
		t.Fatal(big, err)
	}
	_, err = Query[n](ctx, c, "nosuch", Document{SelectAll: true})
	if code := codeOf(t, err).Code; code != "table.unknown" {
		t.Fatal(code)
	}
	b := NewBatcher(c, "pages", BatcherOptions[page]{MaxAge: 10 * time.Millisecond})
	if err := b.Add(page{EventID: "go-4", Page: "/4"}); err != nil {
		t.Fatal(err)
	}
	if unsent, err := b.Close(ctx); err != nil || len(unsent) > 0 {
		t.Fatal(unsent, err)
	}
}
