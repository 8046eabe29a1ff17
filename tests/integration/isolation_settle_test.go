package integration

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// settle brings everybody back, has everybody do everything once more, and finds
// every row where it belongs.
func (w *isolation) settle() {
	for _, m := range w.members {
		switch m.state {
		case removed:
			m.elsewhere()
			m.restore()
		case rejected:
			m.elsewhere()
			m.write(m.files())
		default:
			continue
		}
		m.state = served
	}
	w.reloadAll()
	for _, m := range w.members {
		m.awaitServed()
	}
	for _, m := range w.members {
		w.work.Go(func() {
			for _, step := range m.steps() {
				step()
			}
			m.sendAgain()
		})
	}
	w.work.Wait()
	w.drained()
	w.states()
	for _, m := range w.members {
		parked := m.parkedRows()
		kept := m.storedRows()
		m.account(kept, parked)
	}
	// What ClickHouse refused goes where it belongs, once it may.
	for _, m := range w.members {
		for _, table := range []string{"pages", "events"} {
			m.f.ch.Exec(w.t, "ALTER TABLE "+table+" DROP CONSTRAINT IF EXISTS positive")
		}
	}
	for _, m := range w.members {
		for _, table := range []string{"pages", "events"} {
			m.replayEverything(table)
		}
	}
	w.drained()
	for _, m := range w.members {
		assert.Empty(w.t, m.parkedRows(), m.id)
		m.account(m.storedRows(), nil)
		m.heardAll()
		assert.Empty(w.t, w.troubles(m), "%s had troubles of others", m.id)
	}
}

// sendAgain sends each id and key that was ever answered once more: they are
// remembered, whatever happened to the tenant since.
func (m *member) sendAgain() {
	var rows []*row
	for event, known := range m.ids {
		if known == seen {
			rows = append(rows, m.row("events", event))
		}
	}
	if len(rows) > 0 {
		m.send(rows, m.texts(rows, "\n"), "application/x-ndjson")
	}
	for _, r := range rows {
		assert.Equal(m.w.t, dropped, r.fate, "%s forgot %s", m.id, r.event)
	}
	for _, request := range m.keyed {
		m.repeat(request)
	}
}

// drained waits until no row is on its way.
func (w *isolation) drained() {
	w.s.eventually(func() string {
		for id, state := range w.s.tenantStates() {
			if state.Queue != nil && (state.Queue.Pending > 0 || state.Queue.Error != "") {
				return fmt.Sprintf("%s has %d chunks to write (%s)", id, state.Queue.Pending, state.Queue.Error)
			}
		}
		return ""
	})
}

func (m *member) replayEverything(table string) {
	for cursor, more := "", true; more; more = cursor != "" {
		a := m.w.s.ops("POST", m.ops(replayRoute), fmt.Sprintf(`{"table":%q,"all":true,"cursor":%s}`, table, quoted(cursor)))
		require.Equal(m.w.t, 200, a.status, a.body)
		answer := decode[replayed](m.w.t, a)
		require.Zero(m.w.t, answer.Failed, a.body)
		cursor = answer.Cursor
	}
}

// parkedRows are the tenant's dead letters: table and uid.
func (m *member) parkedRows() map[string]int {
	rows := map[string]int{}
	for _, table := range []string{"pages", "events"} {
		for cursor, more := "", true; more; more = cursor != "" {
			var letters []letter
			letters, cursor = m.letterPage(table, cursor)
			for _, l := range letters {
				rows[table+" "+cell(m.w.t, l.Row, "uid")]++
			}
		}
	}
	return rows
}

// storedRows are the rows in the tenant's tables: table and uid.
func (m *member) storedRows() map[string]int {
	rows := map[string]int{}
	for _, table := range []string{"pages", "events"} {
		for _, r := range m.f.ch.Rows(m.w.t, "SELECT uid, mark FROM "+table) {
			uid, mark := r[0], r[1]
			assert.True(m.w.t, strings.HasPrefix(uid, mark), "%s: a row %s with the mark %s", m.id, uid, mark)
			if m.shared && mark != m.mark() {
				continue
			}
			m.pure("its table "+table, uid+mark)
			rows[table+" "+uid]++
		}
	}
	return rows
}

// account holds what is stored and parked to what was sent and answered.
func (m *member) account(stored, parked map[string]int) {
	t := m.w.t
	for _, r := range m.rows {
		name := r.table + " " + r.uid
		n := stored[name] + parked[name]
		switch r.fate {
		case accepted:
			assert.Equal(t, 1, n, "%s: %s was answered as stored (stored %d, parked %d)", m.id, name, stored[name], parked[name])
		case dropped:
			assert.Zero(t, n, "%s: %s was answered as a duplicate", m.id, name)
		case unanswered:
			assert.LessOrEqual(t, n, 1, "%s: %s was not answered", m.id, name)
		}
		delete(stored, name)
		delete(parked, name)
	}
	for _, uid := range m.direct {
		assert.Equal(t, 1, stored["pages "+uid], uid)
		delete(stored, "pages "+uid)
	}
	assert.Empty(t, stored, "%s never sent these", m.id)
	assert.Empty(t, parked, "%s never sent these", m.id)
}

// heardAll waits until a calm tenant's listeners have heard each row that was
// stored, once; replays bring rows again.
func (m *member) heardAll() {
	if !m.calm {
		return
	}
	m.w.s.eventually(func() string {
		m.listener.mu.Lock()
		defer m.listener.mu.Unlock()
		for _, r := range m.rows {
			n := m.listener.heard[r.uid]
			if r.fate == accepted && (n == 0 || n > 1 && !r.bad) || r.fate == dropped && n > 0 {
				return fmt.Sprintf("%s heard %s %d times", m.id, r.uid, n)
			}
		}
		return ""
	})
}

// troubles are errors in the log that name a tenant to whom nothing happened.
func (w *isolation) troubles(m *member) []string {
	if !m.calm {
		return nil
	}
	return w.s.logs.lines(`"level":"ERROR"`, `"tenant":"`+m.id+`"`)
}
