package wavehouse_test

import (
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	wavehouse "github.com/wavehouse/wavehouse/sdk/go"
)

func TestMetaIsWhatTheServerSaysOfAnAnswer(t *testing.T) {
	told := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Request-ID", "r1")
		if told {
			for name, value := range map[string]string{
				"X-Cache": "MISS", "X-Result-Truncated": "limit", "X-Query-ID": "q1", "X-Rows-Read": "12", "X-Bytes-Read": "340",
				"X-Data-Through": "2026-06-21T04:00:00.250Z", "Server-Timing": "queue;dur=0.5, clickhouse;dur=33",
			} {
				w.Header().Set(name, value)
			}
		}
		_, _ = w.Write([]byte("[]\n"))
	}))
	defer server.Close()
	client, err := wavehouse.New(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	ask := func() (m wavehouse.Meta) {
		if _, err := wavehouse.Query[map[string]any](wavehouse.WithMeta(t.Context(), &m), client, "t", wavehouse.Document{SelectAll: true}); err != nil {
			t.Fatal(err)
		}
		return m
	}
	want := wavehouse.Meta{
		RequestID: "r1", Truncated: "limit", QueryID: "q1", RowsRead: 12, BytesRead: 340, Known: true,
		DataThrough: time.Date(2026, 6, 21, 4, 0, 0, 250_000_000, time.UTC),
		Timing:      map[string]time.Duration{"queue": 500 * time.Microsecond, "clickhouse": 33 * time.Millisecond},
	}
	if got := ask(); !reflect.DeepEqual(want, got) {
		t.Errorf("want %+v, got %+v", want, got)
	}
	told = false
	if got := ask(); !reflect.DeepEqual(wavehouse.Meta{RequestID: "r1"}, got) {
		t.Errorf("of who is not told: %+v", got)
	}
}
