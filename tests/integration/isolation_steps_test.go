package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// everything is a query whose cached answer must be dropped with every write.
const everything = `{"select_all":true,"order_by":[{"column":"uid"}],"limit":9000}`

// questions are equal in every tenant.
var questions = []string{
	everything,
	`{"columns":["uid","mark"],"order_by":[{"column":"uid","dir":"desc"}],"limit":7}`,
	`{"columns":["mark"],"aggregations":[{"fn":"count","column":"*","alias":"n"}],"group_by":["mark"]}`,
}

// step is one random thing that a tenant does.
func (m *member) step() {
	steps := append(m.steps(), m.sendOne, m.sendMany, m.sendMany, m.sendUnderKey, m.question)
	steps[m.random.IntN(len(steps))]()
}

func (m *member) steps() []func() {
	return []func(){
		m.sendOne, m.sendMany, m.sendUnderKey, m.question, m.pipe, m.writeAndRead, m.replayLetters, m.otherLetters,
		m.operate, m.otherToken, m.otherPosition, m.ownPosition, m.forge,
	}
}

func (m *member) ingestPath(table, more string) string { return "/v1/ingest?table=" + table + more }

// someTable is where rows go: with ids that count, or without.
func (m *member) someTable() string { return []string{"events", "pages"}[m.random.IntN(2)] }

// sendOne sends a single object.
func (m *member) sendOne() {
	r := m.draw(m.someTable(), 1)[0]
	path := m.ingestPath(r.table, "")
	a, ok := m.ask(http.MethodPost, path, m.text(r), m.as("writer", "Content-Type", "application/json")...)
	switch {
	case !ok:
		m.lost([]*row{r})
	case !m.is(path, a, http.StatusOK):
	case strings.TrimSpace(a.body) == `{"ok":true}`:
		m.stored(r)
	case strings.TrimSpace(a.body) == `{"duplicate":true}`:
		m.duplicate(r)
	default:
		m.w.fail("%s: %s: %s", m.id, path, a.body)
	}
}

// sendMany sends an array, or lines.
func (m *member) sendMany() {
	table := m.someTable()
	rows := m.draw(table, 2+m.random.IntN(4))
	if m.random.IntN(2) == 0 {
		m.send(rows, "["+m.texts(rows, ",")+"]", "application/json")
		return
	}
	m.send(rows, m.texts(rows, "\n"), "application/x-ndjson")
}

// send sends many rows and notes what became of each.
func (m *member) send(rows []*row, body, format string, headers ...string) (answer, bool) {
	path := m.ingestPath(rows[0].table, "&results=all")
	a, ok := m.ask(http.MethodPost, path, body, m.as("writer", append(headers, "Content-Type", format)...)...)
	if !ok {
		m.lost(rows)
		return a, false
	}
	if !m.is(path, a, http.StatusOK) {
		return a, false
	}
	var b struct {
		Results []struct {
			Index     int
			OK        bool
			Duplicate bool
		}
	}
	if err := json.Unmarshal([]byte(a.body), &b); err != nil || len(b.Results) != len(rows) {
		m.w.fail("%s: %s: %s", m.id, path, a.body)
		return a, false
	}
	for _, result := range b.Results {
		switch r := rows[result.Index-1]; {
		case result.OK:
			m.stored(r)
		case result.Duplicate:
			m.duplicate(r)
		default:
			m.w.fail("%s: %s: %s", m.id, path, a.body)
		}
	}
	return a, true
}

// sendUnderKey sends a request under a key that every tenant uses for another,
// or repeats one of its own that was answered, however long ago.
func (m *member) sendUnderKey() {
	if len(m.keyed) > 0 && m.random.IntN(2) == 0 {
		m.repeat(m.keyed[m.random.IntN(len(m.keyed))])
		return
	}
	m.keys++
	request := keyedRequest{key: fmt.Sprintf("key%d", m.keys), life: m.life}
	rows := m.draw("pages", 1+m.random.IntN(3))
	request.body = "[" + m.texts(rows, ",") + "]"
	a, ok := m.send(rows, request.body, "application/json", "Idempotency-Key", request.key)
	if !ok {
		return
	}
	if a.header.Get("Idempotent-Replayed") != "" {
		m.w.fail("%s: the first request under %s is answered as a repeat", m.id, request.key)
	}
	m.keyed = append(m.keyed, request)
	m.repeat(request)
}

func (m *member) repeat(request keyedRequest) {
	path := m.ingestPath("pages", "")
	a, ok := m.ask(http.MethodPost, path, request.body, m.as("writer", "Content-Type", "application/json", "Idempotency-Key", request.key)...)
	if !ok || !m.is(path, a, http.StatusOK) {
		return
	}
	m.w.met("replayed key")
	if request.life < m.life {
		m.w.met("replayed key from before")
	}
	var b batch
	if err := json.Unmarshal([]byte(a.body), &b); err != nil || b.Succeeded != 0 || b.Duplicates != b.Total || a.header.Get("Idempotent-Replayed") != "true" {
		m.w.fail("%s: %s was answered before: %s", m.id, request.key, a.body)
	}
}

// question asks what all ask.
func (m *member) question() {
	table, document := m.someTable(), questions[m.random.IntN(len(questions))]
	for range 2 {
		m.read("/v1/query?table="+table, document)
	}
}

// read is a POST of a viewer's that is answered from the cache, or not.
func (m *member) read(path, body string) (answer, bool) {
	a, ok := m.ask(http.MethodPost, path, body, m.as("viewer", "Content-Type", "application/json")...)
	if !ok || !m.is(path, a, http.StatusOK) {
		return a, false
	}
	m.w.met(a.header.Get("X-Cache"))
	if m.denied && strings.Contains(a.body, "event_id") {
		m.w.fail("%s may not read event_id (X-Cache %s): %.500s", m.id, a.header.Get("X-Cache"), a.body)
	}
	if !m.denied && body == everything && strings.Contains(a.body, "uid") && !strings.Contains(a.body, "event_id") {
		m.w.fail("%s may read event_id (X-Cache %s): %.500s", m.id, a.header.Get("X-Cache"), a.body)
	}
	return a, true
}

func (m *member) pipe() {
	for range 2 {
		a, ok := m.ask(http.MethodPost, "/v1/pipes/mine", "{}", m.as("viewer", "Content-Type", "application/json")...)
		if !ok || !m.is("the pipe", a, http.StatusOK) {
			return
		}
		m.w.met(a.header.Get("X-Cache"))
		if n := strings.Count(a.body, `"tenant":`); n != strings.Count(a.body, `"tenant":`+quoted(m.id)) {
			m.w.fail("%s: the pipe was run for another: %.500s", m.id, a.body)
		}
	}
}

// writeAndRead reads what it wrote, whatever was cached before.
func (m *member) writeAndRead() {
	m.read("/v1/query?table=pages", everything)
	r := m.row("pages", "e0")
	path := m.ingestPath(r.table, "&wait=inserted&timeout=20s")
	a, ok := m.ask(http.MethodPost, path, m.text(r), m.as("writer", "Content-Type", "application/json")...)
	switch {
	case !ok:
		m.lost([]*row{r})
		return
	case a.status == http.StatusOK:
		m.stored(r)
	case a.status == http.StatusAccepted, m.changing && problemCode(a) == "record.dead_lettered":
		m.stored(r)
		return
	default:
		m.w.fail("%s: %s: %d %s", m.id, path, a.status, a.body)
		return
	}
	a, ok = m.read("/v1/query?table=pages", everything)
	if !ok {
		return
	}
	m.w.met("fresh")
	if !strings.Contains(a.body, quoted(r.uid)) {
		m.w.fail("%s: %s is inserted, and not in the answer (X-Cache %s)", m.id, r.uid, a.header.Get("X-Cache"))
	}
}

// forge sends a row with another's mark, where a policy must prevent it.
func (m *member) forge() {
	if !m.shared {
		m.question()
		return
	}
	path := m.ingestPath("pages", "")
	a, ok := m.ask(http.MethodPost, path, `{"uid":"forged","mark":"mark:s0;"}`, m.as("writer", "Content-Type", "application/json")...)
	if ok && m.is(path, a, http.StatusForbidden) {
		m.w.met("forged row")
	}
}
