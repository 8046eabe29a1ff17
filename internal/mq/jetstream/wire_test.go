package jetstream

import (
	"bufio"
	"bytes"
	"math/rand/v2"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

func TestTableTokens(t *testing.T) {
	for name, token := range map[string]string{
		"events": "events", "a.b": "a%2Eb", "a": "a", "": "%", "%": "%25", "é *>": "%C3%A9%20%2A%3E", "A_z-9": "A_z-9", "a\x00\n": "a%00%0A",
	} {
		require.Equal(t, token, escapeTable(name))
		back, ok := unescapeTable(token)
		require.True(t, ok, token)
		require.Equal(t, name, back)
	}
	for _, token := range []string{"", "%2", "%2e", "a%", "%%", "a.b", "%41", "é", "%G0"} {
		_, ok := unescapeTable(token)
		require.False(t, ok, token)
	}
}

func TestSubjects(t *testing.T) {
	topic := mq.Topic{Tenant: "birch", Table: "a.b"}
	require.Equal(t, "ingest.birch.a%2Eb", Subject("ingest.", topic))
	require.Equal(t, "dlq.birch.a%2Eb", Subject("dlq.", topic))
	for _, s := range []string{"ingest.birch.a%2Eb", "wh.ingest.3.5.birch.a%2Eb"} {
		got, ok := ParseTopic(s)
		require.True(t, ok)
		require.Equal(t, topic, got)
	}
	for _, s := range []string{"", "events", "birch.events", "x..events", "x.bad tenant.events", "x.birch.%", "x.birch."} {
		got, ok := ParseTopic(s)
		require.Equal(t, s == "x.birch.%", ok, "%q: %v", s, got)
	}
}

func sample() mq.Chunk {
	return mq.Chunk{
		Topic: mq.Topic{Tenant: "birch", Table: "t"}, ID: "id",
		Header: mq.Header{Version: "1", Format: mq.FormatRowBinary, Columns: `[{"name":"a","type":"Int8"}]`, Rows: 2,
			Received: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Encoding: "zstd", TraceParent: "00-a-b-01"},
		Body: []byte{1, 2},
	}
}

// over takes a header over the wire format.
func over(t *testing.T, h nats.Header) nats.Header {
	var buf bytes.Buffer
	for k, vs := range h {
		for _, v := range vs {
			buf.WriteString(k + ": " + v + "\r\n")
		}
	}
	buf.WriteString("\r\n")
	got, err := textproto.NewReader(bufio.NewReader(&buf)).ReadMIMEHeader()
	require.NoError(t, err)
	out := nats.Header{}
	for k := range h {
		if v := got.Get(k); v != "" {
			out[k] = []string{v}
		}
	}
	return out
}

func TestChunkHeaders(t *testing.T) {
	c := sample()
	h := EncodeChunk(&c)
	require.Equal(t, nats.Header{
		"Wh-Version": {"1"}, "Wh-Format": {"RowBinary"}, "Wh-Columns": {`[{"name":"a","type":"Int8"}]`}, "Wh-Rows": {"2"},
		"Wh-Received": {"2026-01-02T03:04:05.000000006Z"}, "Wh-Encoding": {"zstd"}, "Nats-Msg-Id": {"id"}, "traceparent": {"00-a-b-01"},
	}, h)
	require.Equal(t, c, DecodeChunk("ingest.birch.t", over(t, h), c.Body))
	require.Equal(t, c, Canonical(c))
	c.Received = c.Received.In(time.FixedZone("x", 3600))
	require.Equal(t, sample(), Canonical(c))
}

// TestCanonicalIsWhatIsRead: a chunk straight from its publisher looks like
// the one that went through the store, readable or not.
func TestCanonicalIsWhatIsRead(t *testing.T) {
	edits := []func(*mq.Chunk){
		func(*mq.Chunk) {},
		func(c *mq.Chunk) { c.Version = "" },
		func(c *mq.Chunk) { c.Version = "7" },
		func(c *mq.Chunk) { c.Rows = 0 },
		func(c *mq.Chunk) { c.Rows = -4 },
		func(c *mq.Chunk) { c.Format = "CSV" },
		func(c *mq.Chunk) { c.Columns = "" },
		func(c *mq.Chunk) { c.Columns = "[\n]" },
		func(c *mq.Chunk) { c.Received = time.Time{} },
		func(c *mq.Chunk) { c.ID, c.TraceParent, c.Encoding = " %\r\n", "\x00", "" },
	}
	for i, edit := range edits {
		c := sample()
		edit(&c)
		got := DecodeChunk(Subject("ingest.", c.Topic), over(t, EncodeChunk(&c)), c.Body)
		require.Equal(t, got, Canonical(c), "edit %d", i)
	}
	c := DecodeChunk("ingest.birch.t", nil, []byte("junk"))
	require.Equal(t, mq.Chunk{Topic: mq.Topic{Tenant: "birch", Table: "t"}, Body: []byte("junk")}, c)
	h := EncodeChunk(new(mq.Chunk))
	require.Empty(t, h)
	other := sample()
	h = EncodeChunk(&other)
	h["Wh-Version"], h["Wh-Rows"], h["Wh-Received"] = []string{"2"}, []string{"many"}, []string{"today"}
	c = DecodeChunk("ingest.birch.t", h, nil)
	require.Equal(t, "2", c.Version)
	require.Zero(t, c.Rows)
}

func TestTextHeaders(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 3000 {
		b := make([]byte, rng.IntN(12))
		for i := range b {
			b[i] = " %a\r\n\t0\x00\x7f\xff"[rng.IntN(10)]
		}
		escaped := escapeText(string(b))
		require.True(t, safeValue(escaped), "%q", escaped)
		require.Equal(t, string(b), unescapeText(escaped))
	}
	require.Equal(t, "50% of", unescapeText("50% of"), "text of another writer")
}

func TestLetterHeaders(t *testing.T) {
	c := sample()
	l := mq.DeadLetter{Topic: c.Topic, Header: c.Header, Row: []byte{9}, Error: "line 1\nline 2", Code: "27",
		At: time.Date(2026, 2, 3, 4, 5, 6, 7, time.UTC), Source: mq.NewPosition(3, 4), SourceRow: 5}
	require.Equal(t, l, DecodeLetter(Subject("dlq.", l.Topic), over(t, EncodeLetter(&l)), l.Row))
	l.Error = strings.Repeat("é", MaxErrorBytes)
	got := DecodeLetter(Subject("dlq.", l.Topic), EncodeLetter(&l), l.Row)
	require.Equal(t, strings.Repeat("é", MaxErrorBytes/2)+"…", got.Error)
	require.Equal(t, []string{"3.4.5"}, EncodeLetter(&l)[headerSource], "as stored letters say it")
	for _, s := range []string{"", "1.2", "a.2.3", "1.b.3", "1.2.c", "1.2.3.4"} {
		pos, row := parseSource(s)
		require.True(t, pos.IsZero(), s)
		require.Zero(t, row)
	}
}

func TestSizeCountsEverything(t *testing.T) {
	require.Equal(t, len("NATS/1.0\r\n\r\n")+3+2+len("K: v\r\nK: ww\r\n"), Size("sub", nats.Header{"K": {"v", "ww"}}, []byte("xy")))
}

func FuzzParseTopic(f *testing.F) {
	f.Add("ingest.birch.a%2Eb")
	f.Add("..%")
	f.Fuzz(func(t *testing.T, s string) {
		topic, ok := ParseTopic(s)
		if !ok {
			return
		}
		_, err := tenant.Parse(string(topic.Tenant))
		require.NoError(t, err)
		require.True(t, strings.HasSuffix(s, "."+string(topic.Tenant)+"."+escapeTable(topic.Table)) ||
			s == string(topic.Tenant)+"."+escapeTable(topic.Table), "%q", s)
	})
}

func FuzzDecode(f *testing.F) {
	f.Add("1", "RowBinary", "[]", "3", "2026-01-02T03:04:05Z", "1.2.3", []byte("x"))
	f.Fuzz(func(t *testing.T, version, format, columns, rows, received, source string, body []byte) {
		h := nats.Header{"Wh-Version": {version}, "Wh-Format": {format}, "Wh-Columns": {columns}, "Wh-Rows": {rows},
			"Wh-Received": {received}, "Dlq-Source": {source}}
		c := DecodeChunk("ingest.birch.t", h, body)
		if c.Version == mq.Version {
			require.Positive(t, c.Rows)
			require.True(t, knownFormat(c.Format))
			require.NotEmpty(t, c.Columns)
		}
		require.Equal(t, body, c.Body)
		DecodeLetter("dlq.birch.t", h, body)
	})
}
