package wavehouse_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	wavehouse "github.com/wavehouse/wavehouse/sdk/go"
)

// server stands for a running WaveHouse in the examples that are run.
func server(body string) (*wavehouse.Client, func()) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, body) }))
	c, err := wavehouse.New(s.URL)
	if err != nil {
		log.Fatal(err)
	}
	return c, s.Close
}

func ExampleInsert() {
	client, stop := server(`{"total":2,"succeeded":1,"failed":1,"duplicates":0,"results":[{"index":2,"error":"not a number","code":"record.type_mismatch","column":"score"}]}`)
	defer stop()
	type click struct {
		Page  string `json:"page"`
		Score any    `json:"score"`
	}
	result, err := wavehouse.Insert(context.Background(), client, "clicks", []click{{"/home", 42.5}, {"/docs", "many"}})
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range result.Failures {
		fmt.Println(f.Index, f.Code, f.Column)
	}
	// Output: 1 record.type_mismatch score
}

func ExampleQuery() {
	client, stop := server(`[{"page":"/home","views":412}]`)
	defer stop()
	type top struct {
		Page  string `json:"page"`
		Views uint64 `json:"views"`
	}
	rows, err := wavehouse.Query[top](context.Background(), client, "clicks", wavehouse.Document{
		Columns:      []string{"page"},
		Aggregations: []wavehouse.Aggregation{{Fn: "count", Alias: "views"}},
		GroupBy:      []string{"page"},
		OrderBy:      []wavehouse.OrderBy{{Column: "views", Dir: "desc"}},
		Limit:        10,
	})
	var failure *wavehouse.Error
	if errors.As(err, &failure) {
		log.Fatal(failure.Code, failure.RequestID)
	}
	fmt.Println(rows[0].Page, rows[0].Views)
	// Output: /home 412
}

func ExampleStream() {
	client, err := wavehouse.New("http://localhost:8080", wavehouse.WithToken("…"))
	if err != nil {
		log.Fatal(err)
	}
	type click struct {
		Page string `json:"page"`
	}
	for event, err := range wavehouse.Stream[click](context.Background(), client, "clicks") {
		switch {
		case err != nil:
			log.Fatal(err)
		case event.Kind == wavehouse.EventRow:
			fmt.Println(event.ReceivedAt, event.Row.Page)
		case event.Kind == wavehouse.EventGap:
			fmt.Println("rows were missed:", event.Reason)
		}
	}
}

func ExampleNewBatcher() {
	client, err := wavehouse.New("http://localhost:8080")
	if err != nil {
		log.Fatal(err)
	}
	type click struct {
		Page string `json:"page"`
	}
	batcher := wavehouse.NewBatcher(client, "clicks", wavehouse.BatcherOptions[click]{
		OnDrop: func(rows []click, err error) { log.Println(len(rows), "rows were refused:", err) },
	})
	if err := batcher.Add(click{"/home"}); err != nil {
		log.Println(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if unsent, err := batcher.Close(ctx); err != nil {
		log.Println(len(unsent), "rows were not sent:", err)
	}
}
