package integration

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type driftField struct {
	Table, Name, Type, Statement string
	Count                        int
	FirstSeen                    time.Time `json:"first_seen"`
	LastSeen                     time.Time `json:"last_seen"`
}

func (s *server) drift() map[string]driftField {
	s.t.Helper()
	a := s.ops(http.MethodGet, "/v1/ops/drift", "")
	require.Equal(s.t, http.StatusOK, a.status, a.body)
	byName := map[string]driftField{}
	for _, f := range decode[struct{ Fields []driftField }](s.t, a).Fields {
		byName[f.Table+" "+f.Name] = f
	}
	return byName
}

func TestFieldsWithoutAColumnAreToldWithTheStatementThatAddsIt(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	const body = `{"event_id":"d1","page":"/","flag":true,"n2":-5,"big":18446744073709551615,"ratio":1.5,"at":"2026-03-04T05:06:07.123Z","text":"x",` +
		`"list":[1,null],"doc":{"a":1},"maybe":null,"odd ` + "`" + `name\\":1,"none":[]}`
	for range 2 {
		refused(t, s.ingest("pages", body), http.StatusBadRequest, "record.unknown_column")
	}
	seen := s.drift()
	want := map[string]string{
		"flag": "Bool", "n2": "Int64", "big": "UInt64", "ratio": "Float64", "at": "DateTime64(3, 'UTC')", "text": "String", "list": "Array(Nullable(Int64))",
		"doc": "JSON", "maybe": "Nullable(String)", "odd `name\\": "Int64", "none": "Array(String)",
	}
	require.Len(t, seen, len(want))
	for name, typeText := range want {
		f := seen["pages "+name]
		assert.Equal(t, typeText, f.Type, name)
		assert.Equal(t, 2, f.Count, name)
		assert.WithinDuration(t, time.Now(), f.LastSeen, time.Minute)
		assert.False(t, f.LastSeen.Before(f.FirstSeen))
		s.ch.Exec(t, f.Statement)
	}
	s.eventually(func() string {
		a := s.ingest("pages", body)
		return unless(a.status == http.StatusOK, a.body)
	})
	s.accept("pages", `{"event_id":"d2","page":"/without"}`)
	s.stored("pages", 2)
	assert.Equal(t, []string{"true", "-5", "18446744073709551615", "1.5", "2026-03-04 05:06:07.123", "x", "[1,NULL]", "1"},
		s.ch.Rows(t, "SELECT toString(flag), toString(n2), toString(big), toString(ratio), toString(at), text, toString(list), toString(doc.a) FROM pages WHERE event_id = 'd1'")[0])
	assert.Empty(t, s.drift(), "what has a column now is no drift")
	metrics := s.do(http.MethodGet, "/metrics", "").body
	assert.Contains(t, metrics, `wavehouse_ingest_unknown_fields_total{table="pages",tenant="0"} 22`)
}

func TestUnknownFieldsAreDroppedOrCollectedWhereTheTenantSaysSo(t *testing.T) {
	t.Parallel()
	s := start(t, options{config: map[string]string{"ingest": `{"flush":{"max_wait":"50ms"},"cloudevents":{"data":"merge"},"tables":{
		"loose":{"unknown_fields":"drop"}, "kept":{"unknown_fields":"collect","collect_into":"rest"},
		"document":{"unknown_fields":"collect","collect_into":"rest"}, "coarse":{"times":"truncate"}}}`}},
		"CREATE TABLE loose (id String, page String) ENGINE = MergeTree ORDER BY id",
		"CREATE TABLE kept (id String, page String, rest Map(String, String)) ENGINE = MergeTree ORDER BY id",
		"CREATE TABLE document (id String, page String, rest JSON) ENGINE = MergeTree ORDER BY id",
		"CREATE TABLE coarse (id String, at DateTime('UTC')) ENGINE = MergeTree ORDER BY id",
		"CREATE TABLE events (id String, source String, type String, page String) ENGINE = MergeTree ORDER BY id",
	)
	for _, table := range []string{"loose", "kept", "document"} {
		s.accept(table, `{"id":"1","page":"/","x":1,"y":{"z":"t"}}`)
		s.stored(table, 1)
	}
	assert.Equal(t, "{'x':'1','y':'{\"z\":\"t\"}'}", s.ch.Value(t, "SELECT toString(rest) FROM kept"))
	assert.Equal(t, "1 t", s.ch.Value(t, "SELECT concat(toString(rest.x), ' ', toString(rest.y.z)) FROM document"))
	assert.Len(t, s.drift(), 6)
	s.accept("kept", `{"id":"2","page":"/"}`)
	s.stored("kept", 2)

	s.accept("coarse", `{"id":"1","at":"2026-11-29T10:00:00.987Z"}`)
	s.stored("coarse", 1)
	assert.Equal(t, "2026-11-29 10:00:00", s.ch.Value(t, "SELECT toString(at) FROM coarse"))

	const event = `{"specversion":"1.0","id":"e","source":"/s","type":"t","data":{"page":"/x"}}`
	for contentType, body := range map[string]string{"application/cloudevents+json; charset=UTF-8": event, "application/cloudevents-batch+json": "[" + event + "]"} {
		a := s.do(http.MethodPost, "/v1/ingest?table=events", body, "Content-Type", contentType)
		require.Equal(t, http.StatusOK, a.status, a.body)
		require.NotContains(t, a.body, `"failed":1`)
	}
	s.stored("events", 2)
	assert.Equal(t, "/x", s.ch.Value(t, "SELECT DISTINCT page FROM events"))
}
