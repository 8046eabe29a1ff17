package clickhouse

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func bodyOf(tag, text string, wrap func(io.Reader) io.Reader) *body {
	resp := &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(wrap(strings.NewReader(text)))}
	if tag != "" {
		resp.Header.Set(headerExceptionTag, tag)
	}
	p := &Pool{config: &Config{Database: "db"}}
	return p.newBody(context.Background(), resp, 0, func() {})
}

func TestTheMarkIsFoundHoweverItIsCut(t *testing.T) {
	const tail = "\r\n__exception__\r\ntagtagtag\r\nCode: 395. DB::Exception: boom: really. (X) (version 26.7.2.1)\n57 tagtagtag\r\n__exception__\r\n"
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "halves": iotest.HalfReader, "with the end": iotest.DataErrReader,
	} {
		got, err := io.ReadAll(bodyOf("tagtagtag", "row1\nrow2\r\n__exc"+tail, wrap))
		require.Equal(t, "row1\nrow2\r\n__exc", string(got), name)
		var e *Error
		require.ErrorAs(t, err, &e, name)
		require.Equal(t, 395, e.Code, name)
		require.Equal(t, "boom: really. (X)", e.Message, name)

		got, err = io.ReadAll(bodyOf("tagtagtag", "row\r\n__exception__\r\nothertag\r\n", wrap))
		require.NoError(t, err, name)
		require.Equal(t, "row\r\n__exception__\r\nothertag\r\n", string(got), name)
	}
}

func TestAServerWithoutMarksAppendsALine(t *testing.T) {
	rows := strings.Repeat("1\tsome row\n", 10_000)
	for name, wrap := range map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader { return r }, "halves": iotest.HalfReader} {
		got, err := io.ReadAll(bodyOf("", rows+"Code: 395. DB::Exception: boom. (X)\n", wrap))
		var failure *Error
		require.ErrorAs(t, err, &failure, name)
		require.Equal(t, 395, failure.Code, name)
		require.Equal(t, strings.TrimSuffix(rows, "\n"), string(got), name)

		quoted := rows + "2\tCode: 395. DB::Exception: quoted in a row\n"
		got, err = io.ReadAll(bodyOf("", quoted, wrap))
		require.NoError(t, err, name)
		require.Equal(t, quoted, string(got), name)
	}
}

func TestLongMessagesAreCut(t *testing.T) {
	_, message, found := parseException("Code: 62. DB::Exception: " + strings.Repeat("ä", 10_000))
	require.True(t, found)
	require.LessOrEqual(t, len(message), maxMessageBytes+len("…"))
	require.NotContains(t, message, "�")
}

func TestTheEndpointIsTheHostOfTheAddress(t *testing.T) {
	for addr, want := range map[string]string{
		"ch.example:9000": "https://ch.example:8443/", "[::1]:9000": "https://[::1]:8443/", "bare": "https://bare:8443/",
	} {
		u := Config{Addr: addr, HTTPScheme: "https", HTTPPort: 8443}.endpoint()
		require.Equal(t, want, u.String())
	}
	c := Config{}.normal()
	require.Equal(t, []any{10, 5, "http"}, []any{c.MaxOpenConns, c.MaxIdleConns, c.HTTPScheme})
}

func BenchmarkBody(b *testing.B) {
	text := strings.Repeat("1\tsome row of ordinary length\n", 100_000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		r := bodyOf("tagtagtag", text, func(r io.Reader) io.Reader { return r })
		if _, err := io.Copy(io.Discard, r); err != nil {
			b.Fatal(err)
		}
	}
}
