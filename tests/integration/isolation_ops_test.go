package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// byOperator are the headers of an operator.
var byOperator = []string{"X-Operator-Key", operatorKey}

// other is another tenant.
func (m *member) other() *member {
	for {
		if o := m.w.members[m.random.IntN(len(m.w.members))]; o != m {
			return o
		}
	}
}

// letterPage reads a page of the tenant's dead letters.
func (m *member) letterPage(table, cursor string) (rows []letter, next string) {
	path := m.ops(rowsRoute + "?limit=500&table=" + table + "&cursor=" + url.QueryEscape(cursor))
	a, err := m.w.s.try(http.MethodGet, path, strings.NewReader(""), byOperator...)
	if err != nil {
		m.w.fail("%s: %s: %v", m.id, path, err)
		return nil, ""
	}
	m.pure(path, a.body)
	switch {
	case problemCode(a) == "dlq.none" && (m.changing || m.state != served):
		return nil, ""
	case !m.is(path, a, http.StatusOK):
		return nil, ""
	}
	var page struct {
		Rows   []letter
		Cursor string
	}
	if err := json.Unmarshal([]byte(a.body), &page); err != nil {
		m.w.fail("%s: %s: %s", m.id, path, a.body)
	}
	for _, l := range page.Rows {
		if !strings.Contains(string(l.Row), m.mark()) || l.Table != table {
			m.w.fail("%s: a dead letter of %s without its mark: %s %s", m.id, table, l.Table, l.Row)
		}
		m.w.met("parked")
		m.w.met(l.Code)
		m.w.publish("letter", m.id, l.ID)
	}
	return page.Rows, page.Cursor
}

// replayLetters looks at the tenant's dead letters and puts them back.
func (m *member) replayLetters() {
	table := m.someTable()
	m.letterPage(table, "")
	path := m.ops(replayRoute)
	a, ok := m.ask(http.MethodPost, path, `{"table":"`+table+`","all":true,"limit":200}`, byOperator...)
	if !ok || !m.is(path, a, http.StatusOK) {
		return
	}
	var answer replayed
	if err := json.Unmarshal([]byte(a.body), &answer); err != nil || answer.Failed > 0 {
		m.w.fail("%s: %s: %s", m.id, path, a.body)
	}
	if answer.Replayed > 0 {
		m.w.met("replayed letter")
	}
}

// otherLetters names another tenant's dead letter as one's own.
func (m *member) otherLetters() {
	o := m.other()
	id := m.w.stolen("letter", o)
	if id == "" {
		return
	}
	document := fmt.Sprintf(`{"table":%q,"ids":[%q]}`, m.someTable(), id)
	path := m.ops(replayRoute)
	a, ok := m.ask(http.MethodPost, path, document, byOperator...)
	if ok && m.is(path, a, http.StatusOK) {
		m.w.met("foreign letter")
		var answer replayed
		if json.Unmarshal([]byte(a.body), &answer) != nil || answer.Replayed != 0 || len(answer.Failures) != 1 || answer.Failures[0].Code != "dlq.unknown_id" {
			m.w.fail("%s replays a dead letter of %s: %s", m.id, o.id, a.body)
		}
	}
	for _, request := range [][]string{{http.MethodGet, rowsRoute + "?id=" + id, ""}, {http.MethodDelete, rowsRoute, document}} {
		path := m.ops(request[1])
		a, err := m.w.s.try(request[0], path, strings.NewReader(request[2]), byOperator...)
		if err != nil || a.status == http.StatusOK && !strings.HasPrefix(a.body, `{"discarded":0`) || a.status >= http.StatusInternalServerError && !m.changing {
			m.w.fail("%s: %s of %s: %d %s %v", m.id, path, o.id, a.status, a.body, err)
		}
		m.pure(path, a.body)
	}
}

// operate asks as an operator does about one tenant.
func (m *member) operate() {
	for _, route := range []string{"/v1/ops/schema", "/v1/ops/pipes"} {
		path := m.ops(route)
		if a, ok := m.ask(http.MethodGet, path, "", byOperator...); ok {
			m.is(path, a, http.StatusOK)
			if route == "/v1/ops/schema" && strings.Contains(a.body, m.mark()) == m.shared {
				m.w.fail("%s: these are not its tables: %s", m.id, a.body)
			}
		}
	}
	sql := "SELECT * FROM events ORDER BY uid DESC LIMIT 100"
	if m.shared {
		sql = "SELECT currentUser() AS u"
	}
	path := m.ops("/v1/ops/query")
	a, ok := m.ask(http.MethodPost, path, `{"sql":`+quoted(sql)+`}`, byOperator...)
	if !ok || !m.is(path, a, http.StatusOK) {
		return
	}
	user := m.f.username
	if user == "" {
		user = "default"
	}
	if m.shared && !strings.Contains(a.body, quoted(user)) {
		m.w.fail("%s asked as another user: %s", m.id, a.body)
	}
}

// otherToken asks with a token that another tenant takes. It counts where it names
// this tenant as well, and shows this tenant's rows.
func (m *member) otherToken() {
	o := m.other()
	headers := from(m.id, "Authorization", "Bearer "+o.tokens["viewer"])
	path := "/v1/query?table=pages"
	a, ok := m.ask(http.MethodPost, path, everything, headers...)
	if !ok {
		return
	}
	if m.strict || o.hasKeys() || o.id != "0" {
		m.w.met("refused token")
		m.is(path+" with a token of "+o.id, a, http.StatusUnauthorized)
		return
	}
	m.w.met("shared token")
	m.is(path+" with a token of "+o.id, a, http.StatusOK)
}

// hasKeys is whether the tenant's tokens are signed with keys of its own.
func (m *member) hasKeys() bool { return strings.Contains(m.auth, "jwks_url") }
