package integration

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A policy that is edited while readers ask as fast as they can holds for every
// request that begins after the edit was taken on, from the cache and not, and
// for every row that is written after it.
func TestAnEditUnderLoadHoldsFromTheNextRequestOn(t *testing.T) {
	t.Parallel()
	const open = `{"tables":{"pages":{"viewer":{"select":{}},"writer":{"insert":{}}}}}`
	s := start(t, options{policies: open}, pagesTable)
	row := func(id string) string { return `{"event_id":"` + id + `","page":"/","secret":"hidden-` + id + `"}` }
	viewer := as(t, "viewer")
	l := s.listen("pages", "", viewer...)
	s.operator("pages", row("before"))
	s.stored("pages", 1)
	assert.Contains(t, string(l.rows(1)[0]), "hidden-before")

	var edited, stop atomic.Bool
	var shown, after atomic.Int64
	var readers sync.WaitGroup
	for reader := range 6 {
		readers.Go(func() {
			for i := 0; !stop.Load(); i++ {
				document := `{"select_all":true}`
				if reader%2 == 1 {
					document = fmt.Sprintf(`{"select_all":true,"filters":[{"column":"n","op":"neq","value":%d}]}`, 1+reader*1_000_000+i)
				}
				late := edited.Load()
				got := s.query("pages", document, viewer...)
				if !assert.Equal(t, http.StatusOK, got.status, got.body) {
					return
				}
				switch hidden := !strings.Contains(got.body, "secret"); {
				case late && !assert.True(t, hidden, "asked after the edit: %s", got.body):
					return
				case late:
					after.Add(1)
				case !hidden:
					shown.Add(1)
				}
			}
		})
	}
	defer func() { stop.Store(true); readers.Wait() }()
	s.eventually(func() string { return unless(shown.Load() >= 30, "not read often enough before the edit") })
	s.writeFile("policies.json", strings.Replace(open, `"select":{}`, `"select":{"deny_columns":["secret"]}`, 1))
	require.Equal(t, http.StatusOK, s.reload().status)
	edited.Store(true)
	s.operator("pages", row("after"))
	s.eventually(func() string { return unless(after.Load() >= 30, "not read often enough after the edit") })
	next := l.rows(1)[0]
	assert.Equal(t, "after", cell(t, next, "event_id"))
	assert.NotContains(t, string(next), "hidden-after")
}
