package wavehouse

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// A value that JSON would turn into another is refused by its name, and nothing is
// sent for it.
func TestAValueThatJSONWouldChangeIsRefused(t *testing.T) {
	type inner struct {
		Text string `json:"text,omitempty"`
	}
	type row struct {
		inner
		V      any    `json:"v"`
		Hidden string `json:"-"`
	}
	s := serve(t, ingest(`"bad"`))
	c, _ := client(t, s)
	for name, bad := range map[string]struct {
		row     any
		message string
	}{
		"text":                 {row{V: "caf\xe9"}, "v is text that is not UTF-8"},
		"text of an embedded":  {row{inner: inner{"\xff"}}, "text that is not UTF-8"},
		"a text deep inside":   {map[string]any{"a": []any{"é", map[string]any{"b": &inner{"\xff"}}}}, "a[1].b.text is text"},
		"a key":                {map[string]any{"v": map[string]int{"\xff": 1}}, "v is a map with a key"},
		"a set of its own":     {row{V: new(sync.Map)}, "v is a sync.Map"},
		"an error":             {map[string]any{"e": errors.New("x")}, "e is a errors.errorString"},
		"a half of a letter":   {row{V: "é"[:1]}, "v is text"},
		"a text behind a good": {row{V: []string{"\ufffd", `\ufffd`, "\xff"}}, "v[2] is text"},
	} {
		_, err := Insert(t.Context(), c, "t", []any{bad.row})
		var refused *InsertError
		if !errors.As(err, &refused) || refused.Err.Code != CodeInvalidRow || !strings.Contains(err.Error(), bad.message) {
			t.Errorf("%s: %v", name, err)
		}
		batcher := NewBatcher(c, "t", BatcherOptions[any]{})
		if err := batcher.Add(bad.row); err == nil || codeOf(t, err).Code != CodeInvalidRow {
			t.Errorf("%s: %v", name, err)
		}
		_, _ = batcher.Close(t.Context())
	}
	_, err := Pipe[row](t.Context(), c, "p", map[string]any{"page": "\xff"})
	equal(t, codeOf(t, err).Code, CodeInvalidOption)
	_, err = Query[row](t.Context(), c, "t", Document{Filters: []Filter{{Column: "page", Op: "eq", Value: "\xff"}}})
	equal(t, codeOf(t, err).Code, CodeInvalidOption)
	equal(t, s.count(), 0)

	rows := []any{
		row{V: "\ufffd"}, row{V: `\ufffd {}`}, row{V: struct{}{}}, row{V: map[string]any{}}, row{V: map[string]struct{}{"a": {}}},
		row{V: json.RawMessage(`"\ufffd"`)}, row{V: time.Unix(0, 0)}, row{V: http.Header(nil)}, row{V: []byte{0xff}}, row{V: (*inner)(nil)},
		json.RawMessage(`{"v":"\ufffd","w":{}}`), row{V: inner{}}, row{Hidden: "\xff"},
	}
	result, err := Insert(t.Context(), c, "t", rows)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, result.Succeeded, len(rows))
}
