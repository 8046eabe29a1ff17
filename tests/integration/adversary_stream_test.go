package integration

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/stream/streamtest"
)

// untilLast reads rows up to the one called last, and holds each to what the
// analyst of birch may see.
func (l *live) untilLast(question string) (events []string) {
	l.t.Helper()
	for {
		f := l.event()
		assert.NotContains(l.t, f.Data, hiddenWord, question)
		assert.NotContains(l.t, f.Data, "secret", question)
		assert.NotContains(l.t, f.Data, secretWord, question)
		row, err := f.Row()
		if err != nil {
			_, err = f.Gap()
			require.NoError(l.t, err, "%s: %s", question, f.Data)
			continue
		}
		assert.Equal(l.t, "birch", cell(l.t, row.Row, "org"), question)
		if events = append(events, cell(l.t, row.Row, "event_id")); events[len(events)-1] == "last" {
			return events
		}
	}
}

// However a stream is begun, it shows what its caller may see.
func TestAdversaryStreamsFromEverywhere(t *testing.T) {
	t.Parallel()
	s := start(t, options{policies: strings.Replace(rulePolicy, `"tables":{`, `"tables":{"others":{"writer":{"select":{}}},`, 1), logLevel: "error"},
		pagesTable, strings.Replace(pagesTable, "pages", "others", 1))
	birch, writer := of(t, "analyst", jwt.MapClaims{"org": "birch"}), as(t, "writer")
	const batch = `{"event_id":"HIDDEN1","page":"HIDDEN","org":"cedar","secret":"SECRET"}` + "\n" + `{"event_id":"b","page":"/","org":"birch","secret":"SECRET"}` + "\n" +
		`{"event_id":"HIDDEN2","page":"HIDDEN","org":"","secret":"SECRET"}` + "\n" + `{"event_id":"HIDDEN3","page":"HIDDEN","org":"birch\u0000","secret":"SECRET"}`
	operator, other := s.listen("pages", "", "X-Operator-Key", operatorKey), s.listen("others", "", writer...)
	s.operator("pages", batch)
	s.operator("others", `{"event_id":"o","page":"/"}`)
	var positions []string
	for range 4 {
		_, f := operator.row()
		positions = append(positions, f.ID)
	}
	_, frame := other.row()
	s.stored("pages", 4)
	a := s.query("pages", `{"columns":["event_id"]}`, append([]string{}, birch...)...)
	require.Equal(t, http.StatusOK, a.status)
	joined := s.do(http.MethodPost, "/v1/query?table=pages&position=1", `{"columns":["event_id"]}`, birch...)
	require.Equal(t, `[{"event_id":"b"}]`, compact(t, []byte(joined.body)))
	positions = append(positions, joined.header.Get("X-Stream-Position"), operator.LastID(), frame.ID)
	positions = append(positions, forgedPositions(positions)...)

	var streams []*live
	var questions []string
	open := func(query, position string, headers ...string) {
		t.Helper()
		stream, err := s.tryListen(query, position, append(headers, birch...)...)
		if err == nil {
			streams, questions = append(streams, &live{stream, t}), append(questions, query+" "+position)
			return
		}
		var r *streamtest.Refused
		require.True(t, errors.As(err, &r), "%s %q: %v", query, position, err)
		assert.Contains(t, []int{http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound}, r.Status, "%s %q: %s", query, position, r.Body)
		assert.NotContains(t, string(r.Body), hiddenWord)
	}
	for _, position := range positions {
		open("table=pages", position)
	}
	for _, since := range []string{"1970-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "2020-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "-1h", "0", "1h' OR 1", "", time.Now().Add(-time.Hour).Format(time.RFC3339)} {
		open("table=pages&since="+url.QueryEscape(since), "")
		open("table=pages&since="+url.QueryEscape(since), positions[0])
	}
	for _, query := range []string{
		"table=pages&select_all=true&columns=secret&filter=1", "table=pages&int64=string", "table=pages&role=admin&org=cedar", "table=pages&X-Operator-Key=" + operatorKey,
		"table=pages&table=others", "table=others", "table=PAGES", "table=pages%00", "table=`pages`", "table=*", "table=pages,others", "table=.dlq.pages", "table=default.pages", "table=pages.*", "table=>", "table=%2e%2e/pages", "table=",
	} {
		open(query, "")
		open(query, positions[0])
	}
	require.Greater(t, len(streams), 10)
	s.operator("pages", batch)
	s.operator("pages", `{"event_id":"last","page":"/","org":"birch","secret":"SECRET"}`)
	for i, l := range streams {
		if !strings.Contains(questions[i], "9999-") || strings.Contains(questions[i], positions[0]) {
			l.untilLast(questions[i])
		}
	}
}

// forgedPositions are ids that nobody was given, made of some that were.
func forgedPositions(given []string) []string {
	forged := []string{"0", "1", "-1", "AA", "AQAAAAAA", strings.Repeat("_", 40), "' OR 1=1 --", "*", "9223372036854775807", "{}", `{"seq":1}`, "1-1", "1:1:1", "$", "earliest", "ID\x01"[:2]}
	for _, id := range given[:2] {
		raw, err := base64.RawURLEncoding.DecodeString(id)
		if err != nil {
			raw = []byte(id)
		}
		for i := range raw {
			for _, bit := range []byte{0x01, 0x80, 0xff} {
				changed := append([]byte{}, raw...)
				changed[i] ^= bit
				forged = append(forged, base64.RawURLEncoding.EncodeToString(changed))
			}
			forged = append(forged, base64.RawURLEncoding.EncodeToString(raw[:i]))
		}
		forged = append(forged, id+"A", id+"=", strings.ToUpper(id), id+","+id)
	}
	return forged
}

// A claim that says nothing, or says something else than the column holds,
// shows no row, in a query and on a stream.
func TestAdversaryClaimsInARule(t *testing.T) {
	t.Parallel()
	s := start(t, options{policies: rulePolicy, logLevel: "error"}, pagesTable)
	const rows = `{"event_id":"b","page":"/","org":"birch"}` + "\n" + `{"event_id":"c","page":"/","org":"cedar"}` + "\n" + `{"event_id":"e","page":"/","org":""}` + "\n" + `{"event_id":"n","page":"/","org":"null"}`
	claims := append(hollowClaims(), true, false, json.Number("0"), json.Number("1e300"), json.Number("123456789012345678901234567890"), []any{"birch"}, []any{"birch", "cedar"}, map[string]any{"org": "birch"})
	for _, value := range evilValues {
		if value != "null" {
			claims = append(claims, value)
		}
	}
	s.operator("pages", rows)
	s.stored("pages", 4)
	var streams []*live
	for i, claim := range claims {
		caller := of(t, "analyst", jwt.MapClaims{"org": claim})
		for _, document := range []string{
			`{"columns":["event_id"]}`, `{"columns":["event_id"],"filters":[{"column":"org","op":"in","value":["birch","cedar",""]}]}`,
			`{"columns":["org"],"aggregations":[{"fn":"count"}],"group_by":["org"]}`,
		} {
			a := s.query("pages", document, caller...)
			require.Equal(t, http.StatusOK, a.status, "%v: %s", claim, a.body)
			assert.Equal(t, `[]`, compact(t, []byte(a.body)), "%v", claim)
		}
		refused(t, s.ingest("pages", `{"event_id":"x","page":"/","org":"birch"}`, of(t, "writer", jwt.MapClaims{"org": claim})...), http.StatusForbidden, "record.check_failed")
		if i%3 == 0 {
			streams = append(streams, s.listen("pages", "", caller...))
			l, err := s.tryListen("table=pages&since=2020-01-01T00:00:00Z", "", caller...)
			require.NoError(t, err)
			streams = append(streams, &live{l, t})
		}
	}
	good := s.listen("pages", "", of(t, "analyst", jwt.MapClaims{"org": "birch"})...)
	s.operator("pages", rows)
	assert.Equal(t, []string{"b"}, ids(t, good.rows(1)))
	s.stop()
	for _, l := range streams {
		assert.Equal(t, "end", l.event().Event, "nothing came before the end")
	}
}
