package integration

import (
	"fmt"
	"net/http"
	"strings"
)

// memory is what a tenant knows of an id.
type memory int

const (
	unseen memory = iota
	seen
	unsure // a request with it was not answered
)

// fate is what is known of a row that was sent.
type fate int

const (
	unanswered fate = iota
	accepted        // answered as stored
	dropped         // answered as a duplicate, or refused
)

// row is a row that was sent.
type row struct {
	table, uid, event string
	bad               bool // ClickHouse refuses it
	fate              fate
}

// keyedRequest is a request that was answered under a key.
type keyedRequest struct {
	key, body string
	life      int
}

// ledger is what a tenant sent and was answered. Its tenant's steps alone use it.
type ledger struct {
	rows  map[string]*row
	ids   map[string]memory
	since map[string]int // the life in which an id was first seen
	keys  int
	keyed []keyedRequest
	life  int // how often the tenant changed
}

func newLedger() ledger {
	return ledger{rows: map[string]*row{}, ids: map[string]memory{}, since: map[string]int{}}
}

// poolOfIDs is small: most ids come again, in every tenant.
const poolOfIDs = 60

// draw makes n rows for a table. Their ids are everybody's.
func (m *member) draw(table string, n int) []*row {
	drawn := make([]*row, n)
	for i, id := range m.random.Perm(poolOfIDs)[:n] {
		drawn[i] = m.row(table, fmt.Sprintf("e%d", id))
		drawn[i].bad = m.random.IntN(12) == 0
	}
	return drawn
}

// row makes a row that was never sent.
func (m *member) row(table, event string) *row {
	r := &row{table: table, uid: fmt.Sprintf("%s%d", m.mark(), len(m.rows)), event: event}
	m.rows[r.uid] = r
	return r
}

func (m *member) text(r *row) string {
	v := 1
	if r.bad {
		v = -1
	}
	return fmt.Sprintf(`{"uid":%q,"mark":%q,"event_id":%q,"v":%d}`, r.uid, m.mark(), r.event, v)
}

func (m *member) texts(rows []*row, separator string) string {
	all := make([]string, len(rows))
	for i, r := range rows {
		all[i] = m.text(r)
	}
	return strings.Join(all, separator)
}

// remembers is whether ids count in the table.
func remembers(table string) bool { return table == "events" }

// stored notes that a row was answered as stored.
func (m *member) stored(r *row) {
	m.w.met("stored")
	r.fate = accepted
	if remembers(r.table) {
		if m.ids[r.event] == seen {
			m.w.fail("%s: %s was seen before, and is stored again as %s", m.id, r.event, r.uid)
		}
		m.ids[r.event], m.since[r.event] = seen, m.life
	}
}

// duplicate notes that a row was answered as a duplicate.
func (m *member) duplicate(r *row) {
	m.w.met("duplicate")
	r.fate = dropped
	if !remembers(r.table) || m.ids[r.event] == unseen {
		m.w.fail("%s: %s of %s is a duplicate of nothing that it sent", m.id, r.event, r.table)
	}
	if m.ids[r.event] == seen && m.since[r.event] < m.life {
		m.w.met("duplicate from before")
	}
	m.ids[r.event] = seen
}

// lost notes that nobody knows what became of rows.
func (m *member) lost(rows []*row) {
	for _, r := range rows {
		if remembers(r.table) && m.ids[r.event] == unseen {
			m.ids[r.event] = unsure
		}
	}
}

// ask sends a request of the tenant's and holds the answer to what every answer
// of a tenant in its state must hold. ok tells that the tenant was served.
func (m *member) ask(method, path, body string, headers ...string) (a answer, ok bool) {
	a, err := m.w.s.try(method, path, strings.NewReader(body), headers...)
	if err != nil {
		m.w.fail("%s: %s: %v", m.id, path, err)
		return a, false
	}
	m.pure(method+" "+path, a.body)
	code := problemCode(a)
	switch {
	case a.status == http.StatusInternalServerError:
		m.w.fail("%s: %s: %s", m.id, path, a.body)
		return a, false
	case code == "dedupe.in_flight" || code == "idempotency.in_flight":
		// Of a request that was not answered; its lease runs.
		ok = false
	case code == "tenant.unknown":
		m.mustBe(removed, path, a)
	case code == "tenant.rejected":
		m.mustBe(rejected, path, a)
	case m.changing && a.status > http.StatusInternalServerError:
		ok = false
	default:
		m.mustBe(served, path, a)
		ok = true
	}
	if code != "" {
		m.w.met(code)
	}
	return a, ok
}

// mustBe holds an answer to the tenant's state, unless that is changing.
func (m *member) mustBe(state standing, path string, a answer) {
	if !m.changing && m.state != state {
		m.w.fail("%s is %s: %s: %d %.500s", m.id, m.state, path, a.status, a.body)
	}
}

// is holds an answer to a status.
func (m *member) is(path string, a answer, status int) bool {
	if a.status != status {
		m.w.fail("%s: %s: %d, want %d: %.500s", m.id, path, a.status, status, a.body)
	}
	return a.status == status
}
