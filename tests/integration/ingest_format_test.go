package integration

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// post sends a body under a content type, "" for none.
func (s *server) post(contentType string, body []byte, headers ...string) answer {
	s.t.Helper()
	if contentType != "" {
		headers = append(headers, "Content-Type", contentType)
	}
	a, err := s.try(http.MethodPost, "/v1/ingest?table=pages&results=all", bytes.NewReader(body), headers...)
	require.NoError(s.t, err)
	return a
}

const ndjson = "application/x-ndjson"

// page is the stored page of an id, as hexadecimal digits when hex is set.
func (s *server) page(id string, hex bool) string {
	s.t.Helper()
	column := "page"
	if hex {
		column = "hex(page)"
	}
	var value string
	s.eventually(func() string {
		rows := s.ch.Rows(s.t, "SELECT "+column+" FROM pages WHERE event_id = '"+id+"'")
		if len(rows) != 1 {
			return unless(false, id+" is stored "+strconv.Itoa(len(rows))+" times")
		}
		value = rows[0][0]
		return ""
	})
	return value
}

func TestTwoObjectsOnOneLine(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	b := s.ingestLines("pages", `{"event_id":"a1","page":"/x"}{"event_id":"a2","page":"/y"}`+"\n"+`{"event_id":"a3","page":"/z"}`+"\n")
	require.Len(t, b.Results, 2)
	assert.Equal(t, "record.malformed", b.Results[0].Code)
	assert.Contains(t, b.Results[0].Error, "extra data")
	assert.True(t, b.Results[1].OK)
	assert.Equal(t, [3]int{2, 1, 1}, [3]int{b.Total, b.Succeeded, b.Failed})
	s.stored("pages", b.Succeeded)
	assert.Equal(t, "/z", s.page("a3", false))
}

func TestArrayCutOff(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	const body = `[{"event_id":"b1","page":"/1"},{"event_id":"b2","page":"/2"}`
	refused(t, s.ingest("pages", body), http.StatusBadRequest, "body.malformed")
	a := s.ingest("pages", body+"]")
	require.Equal(t, http.StatusOK, a.status, a.body)
	assert.Equal(t, 2, decode[batch](t, a).Succeeded)
	// A marker behind them: had the first body stored anything, it were there.
	s.accept("pages", `{"event_id":"last","page":"/"}`)
	s.stored("pages", 3)
}

func TestElementsThatAreNoObjects(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	a := s.post("application/json", []byte(`[{"event_id":"d1","page":"/1"}, 5, null, [], "x", {"event_id":"d2","page":"/2"}]`))
	require.Equal(t, http.StatusOK, a.status, a.body)
	b := decode[batch](t, a)
	assert.Equal(t, [3]int{6, 2, 4}, [3]int{b.Total, b.Succeeded, b.Failed})
	require.Len(t, b.Results, 6)
	for i, r := range b.Results {
		assert.Equal(t, i+1, r.Index)
		assert.Equal(t, i == 0 || i == 5, r.OK)
		assert.Equal(t, r.OK, r.Error == "")
	}
	s.stored("pages", 2)
}

func TestEmptyBodiesAndBatches(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	for _, a := range []answer{s.post("application/json", nil), s.post("application/json", []byte("\n \n")), s.post(ndjson, nil)} {
		p := refused(t, a, http.StatusBadRequest, "body.empty")
		assert.Contains(t, p.Error, "empty")
	}
	a := s.post("application/json", []byte("[]"))
	require.Equal(t, http.StatusOK, a.status)
	assert.JSONEq(t, `{"total":0,"succeeded":0,"failed":0,"duplicates":0,"results":[]}`, a.body)
	s.accept("pages", `{"event_id":"last","page":"/"}`)
	s.stored("pages", 1)
}

func TestByteOrderMark(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	const mark = "\xEF\xBB\xBF"
	a := s.post("application/json", []byte(mark+`{"event_id":"e1","page":"/bom"}`))
	require.Equal(t, http.StatusOK, a.status, a.body)
	assert.JSONEq(t, `{"ok":true}`, a.body)
	b := s.ingestLines("pages", mark+`{"event_id":"e2","page":"/2"}`+"\n"+`{"event_id":"e3","page":"/3"}`)
	require.Len(t, b.Results, 2)
	for i, r := range b.Results {
		assert.True(t, r.OK)
		assert.Equal(t, i+1, r.Index)
	}
	later := s.ingestLines("pages", `{"event_id":"e4","page":"/4"}`+"\n"+mark+`{"event_id":"e5","page":"/5"}`)
	assert.Equal(t, 1, later.Failed)
	assert.False(t, later.Results[1].OK)
	s.stored("pages", 4)
	assert.Equal(t, "/bom", s.page("e1", false))
}

func gzipped(t testing.TB, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

func TestCompressedBody(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	const record = `{"event_id":"m1","page":"/gz"}`
	whole := gzipped(t, record)
	a := s.post("application/json", whole, "Content-Encoding", "gzip")
	require.Equal(t, http.StatusOK, a.status, a.body)
	for _, bad := range [][]byte{[]byte(record), whole[:len(whole)/2], whole[:len(whole)-4], append(whole[:len(whole):len(whole)], "trailing"...)} {
		p := refused(t, s.post("application/json", bad, "Content-Encoding", "gzip"), http.StatusBadRequest, "body.malformed")
		assert.Contains(t, p.Error, "gzip")
	}
	refused(t, s.post("application/json", whole, "Content-Encoding", "br"), http.StatusUnsupportedMediaType, "encoding.unsupported")
	members := append(gzipped(t, `{"event_id":"m2","page":"/gz"}`+"\n"), gzipped(t, `{"event_id":"m3","page":"/gz"}`)...)
	a = s.post(ndjson, members, "Content-Encoding", "GZIP")
	require.Equal(t, http.StatusOK, a.status, a.body)
	assert.Equal(t, 2, decode[batch](t, a).Succeeded)
	encoder, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	packed := encoder.EncodeAll([]byte(`{"event_id":"m4","page":"/gz"}`), nil)
	a = s.post("application/json", packed, "Content-Encoding", "zstd")
	require.Equal(t, http.StatusOK, a.status, a.body)
	refused(t, s.post("application/json", packed[:len(packed)-3], "Content-Encoding", "zstd"), http.StatusBadRequest, "body.malformed")
	s.stored("pages", 4)
	assert.Equal(t, "/gz", s.page("m1", false))
}

func TestMediaTypes(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	body := []byte(`{"event_id":"t1","page":"/1"}` + "\n" + `{"event_id":"t2","page":"/2"}`)
	for _, name := range []string{"Application/X-NDJSON; charset=utf-8", "application/jsonl", "application/ndjson", "application/jsonlines;Charset=UTF-8"} {
		a := s.post(name, body)
		require.Equal(t, http.StatusOK, a.status, a.body)
		assert.Equal(t, 2, decode[batch](t, a).Succeeded, name)
	}
	refused(t, s.post("application/json", body), http.StatusBadRequest, "body.malformed")
	for _, name := range []string{"", "text/xml", "application/json, application/x-ndjson", "application/json; charset=latin1", ";"} {
		p := refused(t, s.post(name, body), http.StatusUnsupportedMediaType, "content_type.unsupported")
		if name == "text/xml" {
			assert.Contains(t, p.Error, "application/x-ndjson")
		}
	}
	refused(t, s.post("application/json", body, "Content-Type", ndjson), http.StatusUnsupportedMediaType, "content_type.unsupported")
	s.stored("pages", 8)
}

func TestRepeatedKey(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	for _, body := range []string{
		`{"event_id":"n1","page":"/p","org":"cedar","org":"birch"}`, `{"event_id":"n1","page":"/p","org":"birch","org":"cedar"}`,
		`{"event_id":"n1","page":"/p","org":"birch","\u006frg":"cedar"}`,
	} {
		p := refused(t, s.ingest("pages", body), http.StatusBadRequest, "record.duplicate_column")
		assert.Equal(t, "org", p.Column)
	}
	s.accept("pages", `{"event_id":"last","page":"/"}`)
	s.stored("pages", 1)
}

func TestHalfASurrogatePair(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	refused(t, s.ingest("pages", `{"event_id":"p1","page":"\ud83d"}`), http.StatusBadRequest, "record.malformed")
	a := s.ingest("pages", `{"event_id":"p2","page":"\ud83d\ude00"}`)
	require.Equal(t, http.StatusOK, a.status, a.body)
	assert.Equal(t, "F09F9880", s.page("p2", true))
	s.stored("pages", 1)
	assert.Zero(t, s.parked())
}

func TestBytesThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	p := refused(t, s.ingest("pages", "{\"event_id\":\"q1\",\"page\":\"ab\xFFc\"}"), http.StatusBadRequest, "record.malformed")
	assert.Contains(t, p.Error, "UTF-8")
	s.accept("pages", `{"event_id":"q2","page":"a\u0000b"}`)
	assert.Equal(t, "610062", s.page("q2", true))
	s.stored("pages", 1)
}

func TestDeepNestingAndAbsurdNumbers(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	deep := strings.Repeat("[", 200_000)
	for _, body := range []string{
		`{"event_id":"r1","page":` + deep, `{"event_id":"r1","page":` + deep + strings.Repeat("]", 200_000) + `}`,
		`{"event_id":"r2","n":1e999999999}`, `{"event_id":"r3","n":` + strings.Repeat("9", 100_000) + `}`,
	} {
		a := s.ingest("pages", body)
		require.Equal(t, http.StatusBadRequest, a.status, "%.200s", a.body)
		assert.Less(t, len(a.body), 1000, "the answer does not repeat the value")
	}
	a := s.ingest("pages", `{"event_id":"r4","page":"/"}`)
	require.Equal(t, http.StatusOK, a.status, a.body)
	s.stored("pages", 1)
}

func TestWindowsLinesAndBlankLines(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	b := s.ingestLines("pages", `{"event_id":"s1","page":"/1"}`+"\r\n\r\n   \r\n"+`{"event_id":"s2","page":"/2"}`+"\r\n"+`{"event_id":"s3","page":"/3"}`)
	assert.Equal(t, [2]int{3, 3}, [2]int{b.Total, b.Succeeded})
	require.Len(t, b.Results, 3)
	for i, r := range b.Results {
		assert.Equal(t, i+1, r.Index)
	}
	s.stored("pages", 3)
	assert.Equal(t, "/1", s.page("s1", false))
}

func TestRecordLargerThanAQueueMessage(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, pagesTable)
	line := func(id, page string) string { return `{"event_id":"` + id + `","page":"` + page + `"}` + "\n" }
	b := s.ingestLines("pages", line("u1", "/1")+line("u2", strings.Repeat("x", 3<<20))+line("u3", "/3"))
	assert.Equal(t, [3]int{3, 2, 1}, [3]int{b.Total, b.Succeeded, b.Failed})
	assert.Equal(t, "record.too_large", b.Results[1].Code)
	refused(t, s.ingest("pages", line("u2", strings.Repeat("x", 3<<20))), http.StatusRequestEntityTooLarge, "record.too_large")
	s.accept("pages", line("u4", "/4"))
	s.stored("pages", 3)
}
