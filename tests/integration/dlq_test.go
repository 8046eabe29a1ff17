package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
)

// replayed is the answer to a replay.
type replayed struct {
	Replayed  int    `json:"replayed"`
	Failed    int    `json:"failed"`
	Remaining int    `json:"remaining"`
	Cursor    string `json:"cursor"`
	DryRun    bool   `json:"dry_run"`
	Failures  []struct {
		ID     string `json:"id"`
		Code   string `json:"code"`
		Column string `json:"column"`
		Error  string `json:"error"`
	} `json:"failures"`
}

const (
	replayRoute = "/v1/ops/dlq/replay"
	rowsRoute   = "/v1/ops/dlq/rows"
)

// replay asks for a replay of what the document selects.
func (s *server) replay(document string) replayed {
	s.t.Helper()
	a := s.ops(http.MethodPost, replayRoute, document)
	require.Equal(s.t, http.StatusOK, a.status, a.body)
	return decode[replayed](s.t, a)
}

// replayAll is a replay of all of a table, more a part of the document.
func (s *server) replayAll(table, more string) replayed {
	s.t.Helper()
	return s.replay(fmt.Sprintf(`{"table":%s,"all":true%s}`, quoted(table), more))
}

// counts are the parked rows by table.
func (s *server) counts() map[string]int {
	s.t.Helper()
	a := s.ops(http.MethodGet, "/v1/ops/dlq/stats", "")
	require.Equal(s.t, http.StatusOK, a.status, a.body)
	return decode[struct {
		Tables map[string]int `json:"tables"`
	}](s.t, a).Tables
}

func (s *server) awaitParked(n int) {
	s.t.Helper()
	s.eventually(func() string { got := s.parked(); return unless(got == n, fmt.Sprint(got, " parked, want ", n)) })
}

// parkByDrop accepts n rows with a column and drops it before they are
// written: they become dead letters.
func (s *server) parkByDrop(table string, n int) {
	s.t.Helper()
	before := s.parked()
	var body strings.Builder
	for i := range n {
		fmt.Fprintf(&body, "{\"id\":\"p%d\",\"ref\":\"r%d\",\"n\":%d}\n", i, i, i)
	}
	s.unwritten(func() {
		s.accept(table, body.String())
		s.ch.Exec(s.t, "ALTER TABLE `"+table+"` DROP COLUMN ref")
	})
	s.awaitParked(before + n)
}

func movingTable(name string) string {
	return "CREATE TABLE `" + name + "` (id String, ref String DEFAULT 'none', n Int32 DEFAULT 0) ENGINE = MergeTree ORDER BY id"
}

func TestReplayOfDeadLetters(t *testing.T) {
	t.Parallel()
	s := behindProxy(t, options{}, movingTable("moving"))
	s.parkByDrop("moving", 12)
	at := s.letters("moving")[0]
	// Without its column no row fits.
	answer := s.replayAll("moving", "")
	assert.Equal(t, 0, answer.Replayed)
	assert.Equal(t, 12, answer.Failed)
	assert.Equal(t, 12, answer.Remaining)
	require.Len(t, answer.Failures, 12)
	assert.Equal(t, at.ID, answer.Failures[0].ID)
	assert.Equal(t, "record.unknown_column", answer.Failures[0].Code)
	assert.Equal(t, "ref", answer.Failures[0].Column)
	assert.Equal(t, 12, s.parked(), "what does not fit stays")

	s.ch.Exec(t, "ALTER TABLE moving ADD COLUMN ref String DEFAULT 'again'")
	answer = s.replayAll("moving", `,"dry_run":true`)
	assert.Equal(t, 12, answer.Replayed)
	assert.True(t, answer.DryRun)
	assert.Equal(t, 12, s.parked(), "a dry run changes nothing")
	assert.Zero(t, s.ch.Count(t, "moving"))

	answer = s.replayAll("moving", "")
	assert.Equal(t, replayed{Replayed: 12, Failures: answer.Failures}, answer)
	assert.Empty(t, answer.Failures)
	s.stored("moving", 12)
	assert.Zero(t, s.parked())
	assert.Equal(t, [][]string{{"12", "12", "66"}}, s.ch.Rows(t, "SELECT uniqExact(id), uniqExact(ref), sum(n) FROM moving WHERE ref = concat('r', toString(n))"))
	assert.Zero(t, s.replayAll("moving", "").Replayed)
}

func TestReplayAgainstTheTypesOfToday(t *testing.T) {
	t.Parallel()
	s := behindProxy(t, options{}, movingTable("moving"))
	before := s.ch.Value(t, "SELECT toString(now64(3, 'UTC'))")
	s.parkByDrop("moving", 200)
	s.ch.Exec(t, "ALTER TABLE moving ADD COLUMN ref LowCardinality(String)", "ALTER TABLE moving MODIFY COLUMN n Int8 DEFAULT 0",
		"ALTER TABLE moving ADD COLUMN extra Nullable(String)")
	answer := s.replayAll("moving", "")
	assert.Equal(t, 128, answer.Replayed)
	assert.Equal(t, 72, answer.Failed)
	assert.Equal(t, 72, answer.Remaining)
	for _, f := range answer.Failures {
		assert.Equal(t, "record.out_of_range", f.Code)
		assert.Equal(t, "n", f.Column)
	}
	s.stored("moving", 128)
	assert.Equal(t, "128", s.ch.Value(t, "SELECT uniqExact(id) FROM moving WHERE ref = concat('r', toString(n))"))
	left := s.letters("moving")
	require.Len(t, left, 72)
	assert.JSONEq(t, `{"id":"p128","ref":"r128","n":128}`, string(left[0].Row))

	// By name: one that fits again, one that does not, one that never was.
	s.ch.Exec(t, "ALTER TABLE moving MODIFY COLUMN n UInt8 DEFAULT 0", "ALTER TABLE moving ADD CONSTRAINT few CHECK n < 150")
	answer = s.replay(fmt.Sprintf(`{"table":"moving","ids":[%q,%q,"0-1",%q]}`, left[0].ID, left[1].ID, left[0].ID))
	assert.Equal(t, 2, answer.Replayed)
	require.Len(t, answer.Failures, 1)
	assert.Equal(t, "dlq.unknown_id", answer.Failures[0].Code)
	s.stored("moving", 130)
	// A row that ClickHouse refuses again is parked again.
	answer = s.replayAll("moving", "")
	assert.Equal(t, 70, answer.Replayed)
	s.stored("moving", 150)
	s.awaitParked(50)
	again := s.letters("moving")
	require.Len(t, again, 50)
	assert.Equal(t, "469", again[0].Code)
	assert.NotEqual(t, left[22].ID, again[0].ID, "a letter of its own")
	a := s.ops(http.MethodGet, rowsRoute+"?id="+again[0].ID, "")
	require.Equal(t, http.StatusOK, a.status, a.body)
	one := decode[struct {
		Rows []struct {
			Received string `json:"received_at"`
			At       string `json:"at"`
		}
	}](t, a).Rows
	require.Len(t, one, 1)
	assert.Less(t, one[0].Received, one[0].At)
	assert.GreaterOrEqual(t, one[0].Received, strings.Replace(before, " ", "T", 1), "the time of its arrival stays")
	refused(t, s.ops(http.MethodGet, rowsRoute+"?id=0-1", ""), http.StatusNotFound, "dlq.unknown_id")
}

func TestDeadLettersOfTablesWithNearlyTheSameName(t *testing.T) {
	t.Parallel()
	s := behindProxy(t, options{}, movingTable("a"), movingTable("a.b"), movingTable("ü %/?"))
	s.parkByDrop("a", 3)
	s.parkByDrop("a.b", 5)
	s.parkByDrop("ü %/?", 2)
	want := map[string]int{"a": 3, "a.b": 5, "ü %/?": 2}
	assert.Equal(t, want, s.counts())
	ids := func(table string) (ids []string) {
		for _, l := range s.letters(table) {
			ids = append(ids, l.ID)
		}
		return ids
	}
	discard := func(document string) (n, remaining int) {
		a := s.ops(http.MethodDelete, rowsRoute, document)
		require.Equal(t, http.StatusOK, a.status, a.body)
		answer := decode[map[string]int](t, a)
		return answer["discarded"], answer["remaining"]
	}
	// An id of the one is none of the other's.
	n, left := discard(fmt.Sprintf(`{"table":"a","ids":[%q]}`, ids("a.b")[0]))
	assert.Equal(t, []int{0, 3}, []int{n, left})
	n, left = discard(fmt.Sprintf(`{"table":"a.b","ids":[%q,%q]}`, ids("a.b")[0], ids("a.b")[0]))
	assert.Equal(t, []int{1, 4}, []int{n, left})
	s.ch.Exec(t, "ALTER TABLE a ADD COLUMN ref String", "ALTER TABLE `a.b` ADD COLUMN ref String", "ALTER TABLE `ü %/?` ADD COLUMN ref String")
	assert.Equal(t, 3, s.replayAll("a", "").Replayed)
	assert.Equal(t, map[string]int{"a.b": 4, "ü %/?": 2}, s.counts())
	assert.Equal(t, 2, s.replayAll("ü %/?", "").Replayed)
	s.stored("`ü %/?`", 2)
	s.stored("a", 3)
	n, left = discard(`{"table":"a.b","all":true}`)
	assert.Equal(t, []int{4, 0}, []int{n, left})
	assert.Empty(t, s.counts())
	assert.Zero(t, s.ch.Count(t, "`a.b`"))
}

func TestSelectorsThatCannotBeMeant(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	many, err := json.Marshal(make([]string, 1001))
	require.NoError(t, err)
	for document, code := range map[string]string{
		``: "body.empty", `{}`: "table.missing", `{"all":true}`: "table.missing",
		`{"table":"pages"}`: "dlq.selector_invalid", `{"table":"pages","ids":[]}`: "dlq.selector_invalid",
		`{"table":"pages","all":false}`: "dlq.selector_invalid", `{"table":"pages","all":true,"ids":["x"]}`: "dlq.selector_invalid",
		`{"table":"pages","ids":` + string(many) + `}`: "dlq.selector_invalid", `{"table":"pages","everything":true}`: "dlq.selector_invalid",
		`[1]`: "dlq.selector_invalid", `{`: "dlq.selector_invalid",
	} {
		refused(t, s.ops(http.MethodPost, replayRoute, document), http.StatusBadRequest, code)
		refused(t, s.ops(http.MethodDelete, rowsRoute, document), http.StatusBadRequest, code)
	}
	for _, more := range []string{`"limit":0`, `"limit":100001`, `"limit":"all"`, `"cursor":"nonsense"`, `"dry_run":1`} {
		a := s.ops(http.MethodPost, replayRoute, `{"table":"pages","all":true,`+more+`}`)
		if more == `"cursor":"nonsense"` {
			assert.Equal(t, http.StatusOK, a.status, "nothing was ever parked, so there is no list")
			continue
		}
		refused(t, a, http.StatusBadRequest, "dlq.selector_invalid")
	}
	refused(t, s.ops(http.MethodPost, replayRoute, `{"table":"pages","ids":["x"],"cursor":"y"}`), http.StatusBadRequest, "dlq.selector_invalid")
	refused(t, s.ops(http.MethodPost, replayRoute, `{"table":"nowhere","all":true}`), http.StatusNotFound, "table.unknown")
	refused(t, s.ops(http.MethodPost, replayRoute+"?tenant=nobody", `{"table":"pages","all":true}`), http.StatusNotFound, "tenant.unknown")
	refused(t, s.ops(http.MethodDelete, rowsRoute+"?tenant=nobody", `{"table":"pages","all":true}`), http.StatusNotFound, "dlq.none")
	for _, method := range []string{http.MethodPost, http.MethodDelete} {
		path := map[string]string{http.MethodPost: replayRoute, http.MethodDelete: rowsRoute}[method]
		refused(t, s.do(method, path, `{"table":"pages","all":true}`, as(t, "viewer")...), http.StatusForbidden, "auth.forbidden")
	}
}

// Very many letters go back in pages; a call is bounded and says where to go on.
func TestReplayOfVeryManyLetters(t *testing.T) {
	t.Parallel()
	s := behindProxy(t, options{}, movingTable("moving"))
	s.parkByDrop("moving", 3000)
	s.ch.Exec(t, "ALTER TABLE moving ADD COLUMN ref String")
	total, calls, cursor := 0, 0, ""
	for {
		answer := s.replayAll("moving", `,"limit":800,"cursor":`+quoted(cursor))
		assert.LessOrEqual(t, answer.Replayed, 800)
		assert.Zero(t, answer.Failed)
		total += answer.Replayed
		assert.Equal(t, 3000-total, answer.Remaining)
		calls++
		if cursor = answer.Cursor; cursor == "" {
			break
		}
	}
	assert.Equal(t, 3000, total)
	assert.GreaterOrEqual(t, calls, 4)
	s.stored("moving", 3000)
	assert.Equal(t, "3000", s.ch.Value(t, "SELECT uniqExact(id) FROM moving WHERE ref = concat('r', toString(n))"))
	assert.Zero(t, s.parked())
	a := s.ops(http.MethodGet, rowsRoute+"?table=moving&cursor="+url.QueryEscape("nonsense"), "")
	refused(t, a, http.StatusBadRequest, "query_string.invalid")
}

// Rows whose types have no codec here travel as lines of JSON.
func TestReplayOfRowsThatAreLines(t *testing.T) {
	t.Parallel()
	s := behindProxy(t, options{}, `CREATE TABLE lines (id String, doc JSON, ref String DEFAULT '') ENGINE = MergeTree ORDER BY id`)
	s.unwritten(func() {
		s.accept("lines", `{"id":"1","doc":{"a":[1,"x"]},"ref":"r"}`+"\n"+`{"id":"2","doc":{"b":null},"ref":"s"}`)
		s.ch.Exec(t, "ALTER TABLE lines DROP COLUMN ref")
	})
	s.awaitParked(2)
	s.ch.Exec(t, "ALTER TABLE lines ADD COLUMN ref String")
	assert.Equal(t, 2, s.replayAll("lines", "").Replayed)
	s.stored("lines", 2)
	assert.Equal(t, [][]string{{"1", "r"}, {"2", "s"}}, s.ch.Rows(t, "SELECT id, ref FROM lines ORDER BY id"))
	assert.Contains(t, s.ch.Value(t, "SELECT toString(doc) FROM lines WHERE id = '1'"), `"x"`)
}

// A table that is gone keeps its letters, and gets them when it is back.
func TestReplayOnceTheTableIsBack(t *testing.T) {
	t.Parallel()
	const table = `CREATE TABLE temp_t (id String, v UInt8) ENGINE = MergeTree ORDER BY id`
	s := behindProxy(t, options{}, table)
	s.unwritten(func() {
		s.accept("temp_t", `{"id":"1","v":1}`+"\n"+`{"id":"2","v":2}`)
		s.ch.Exec(t, "DROP TABLE temp_t SYNC")
	})
	s.awaitParked(2)
	refused(t, s.ops(http.MethodPost, replayRoute, `{"table":"temp_t","all":true}`), http.StatusNotFound, "table.unknown")
	s.ch.Exec(t, table)
	assert.Equal(t, 2, s.replayAll("temp_t", "").Replayed)
	s.stored("temp_t", 2)
	assert.Zero(t, s.parked())
}

// Replays and discards of the same letters at the same time: each leaves once.
func TestLettersLeaveOnce(t *testing.T) {
	t.Parallel()
	s := behindProxy(t, options{}, movingTable("moving"))
	s.parkByDrop("moving", 1500)
	s.ch.Exec(t, "ALTER TABLE moving ADD COLUMN ref String")
	type outcome struct{ replayed, discarded int }
	outcomes := make(chan outcome, 8)
	for i := range 8 {
		go func() {
			var o outcome
			for done := false; !done; {
				method, path, document := http.MethodPost, replayRoute, `{"table":"moving","all":true,"limit":300}`
				if i%4 == 3 {
					method, path, document = http.MethodDelete, rowsRoute, `{"table":"moving","all":true}`
				}
				a, err := s.try(method, path, strings.NewReader(document), "X-Operator-Key", operatorKey)
				if err != nil || a.status != http.StatusOK {
					done = err != nil || a.status != http.StatusConflict
					continue
				}
				var answer struct{ Replayed, Discarded, Remaining int }
				done = json.Unmarshal([]byte(a.body), &answer) != nil || answer.Remaining == 0
				o.replayed, o.discarded = o.replayed+answer.Replayed, o.discarded+answer.Discarded
			}
			outcomes <- o
		}()
	}
	var all outcome
	for range 8 {
		o := <-outcomes
		all.replayed, all.discarded = all.replayed+o.replayed, all.discarded+o.discarded
	}
	assert.Equal(t, 1500, all.replayed+all.discarded, "%+v", all)
	s.stored("moving", all.replayed)
	assert.Zero(t, s.parked())
}

// The letters of a tenant that is gone can be looked at and discarded, and go
// back once it is there again.
func TestDeadLettersOfATenantThatIsGone(t *testing.T) {
	t.Parallel()
	acme := own(t)
	proxy := clickhousetest.NewFaultProxy(t, acme.ch.HTTPAddr())
	acme.httpPort = proxy.Port()
	s := nested(t, options{}, map[string]folder{"acme": acme, "birch": own(t)})
	proxy.Refuse()
	s.accept("pages", lines("a", 4), from("acme")...)
	acme.ch.Exec(t, "DROP TABLE pages SYNC")
	proxy.Pass(t)
	s.eventually(func() string { return unless(s.letterCount("acme") == 4, "not parked") })
	s.removeFolder("acme")
	require.Equal(t, http.StatusOK, s.reload().status)
	a := s.ops(http.MethodGet, rowsRoute+"?tenant=acme&table=pages", "")
	require.Equal(t, http.StatusOK, a.status, a.body)
	rows := decode[struct{ Rows []letter }](t, a).Rows
	require.Len(t, rows, 4)
	refused(t, s.ops(http.MethodPost, replayRoute+"?tenant=acme", `{"table":"pages","all":true}`), http.StatusNotFound, "tenant.unknown")
	a = s.ops(http.MethodDelete, rowsRoute+"?tenant=acme", fmt.Sprintf(`{"table":"pages","ids":[%q]}`, rows[0].ID))
	assert.JSONEq(t, `{"discarded":1,"remaining":3}`, a.body)
	assert.Zero(t, s.letterCount("birch"))

	acme.ch.Exec(t, pagesTable)
	s.writeFolder("acme", acme)
	require.Equal(t, http.StatusOK, s.reload().status)
	s.awaitTenant("acme")
	a = s.ops(http.MethodPost, replayRoute+"?tenant=acme", `{"table":"pages","all":true}`)
	require.Equal(t, http.StatusOK, a.status, a.body)
	assert.Equal(t, 3, decode[replayed](t, a).Replayed)
	s.holds(acme, 3)
	assert.Zero(t, s.letterCount("acme"))
}
