package api

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
)

const single = `{"event_id":"m1","page":"/gz"}`

func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

func TestCompressedRequestBody(t *testing.T) {
	rig := newRig(t, writerPolicy)
	url := rig.serve(t) + "/v1/ingest?table=pages"
	encoder, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	whole := gzipped(t, single)
	for name, test := range map[string]struct {
		encoding, body string
		status         int
		message        string
	}{
		"gzip":         {"gzip", whole, 200, ""},
		"gzip members": {"gzip", gzipped(t, single[:10]) + gzipped(t, single[10:]), 200, ""},
		"zstd":         {"zstd", string(encoder.EncodeAll([]byte(single), nil)), 200, ""},
		"plain bytes":  {"gzip", single, 400, "gzip"},
		"cut in half":  {"gzip", whole[:len(whole)/2], 400, "gzip"},
		"zstd cut":     {"zstd", string(encoder.EncodeAll([]byte(single), nil))[:12], 400, "zstd"},
		"brotli":       {"br", single, 415, "br"},
		"two":          {"gzip, gzip", whole, 415, "gzip"},
	} {
		t.Run(name, func(t *testing.T) {
			before := rig.rows()
			a := send(t, "POST", url, test.body, "Content-Type", "application/json", "Content-Encoding", test.encoding)
			require.Equal(t, test.status, a.status, a.body)
			require.Contains(t, a.body, test.message)
			if test.status == 200 {
				require.Equal(t, before+1, rig.rows())
				return
			}
			require.Equal(t, before, rig.rows())
		})
	}
}

func TestBodiesAreLimitedOnceDecoded(t *testing.T) {
	url := newRig(t, writerPolicy).serve(t) + "/v1/ingest?table=pages"
	bomb := gzipped(t, strings.Repeat(" ", maxIngestBody+1))
	require.Less(t, len(bomb), 100<<10)
	for _, headers := range [][]string{{"Content-Encoding", "gzip"}, {}} {
		body := bomb
		if len(headers) == 0 {
			body = strings.Repeat(" ", maxIngestBody+1)
		}
		a := send(t, "POST", url, body, append(headers, "Content-Type", "application/json")...)
		require.Equal(t, 413, a.status)
		require.Equal(t, "body.too_large", a.json(t)["code"])
	}
}

func TestMediaTypes(t *testing.T) {
	rig := newRig(t, writerPolicy)
	url := rig.serve(t) + "/v1/ingest?table=pages"
	lines := `{"event_id":"1","page":"/1"}` + "\n" + `{"event_id":"2","page":"/2"}`
	for contentType, want := range map[string]int{
		"Application/X-NDJSON; charset=utf-8":    200,
		"application/jsonl":                      200,
		"application/jsonlines":                  200,
		"application/ndjson; foo=bar":            200,
		"application/x-jsonlines":                200,
		"application/x-jsonl":                    200,
		`application/x-ndjson; charset="UTF8"`:   200,
		"application/x-ndjson; charset=us-ascii": 200,
		"application/json":                       400,
		"text/plain":                             415,
		"text/xml":                               415,
		"text/csv":                               400, // the first line names no columns
		"text/csv; header=maybe":                 415,
		"text/csv; charset=latin1":               415,
		"text/csv; header=absent; header=x":      415,
		"application/json; charset=latin1":       415,
		"application/json, text/csv":             415,
		"":                                       415,
	} {
		before := rig.rows()
		a := send(t, "POST", url, lines, "Content-Type", contentType)
		require.Equal(t, want, a.status, "%q: %s", contentType, a.body)
		if want != 200 {
			require.Equal(t, before, rig.rows(), contentType)
			continue
		}
		require.EqualValues(t, 2, a.json(t)["succeeded"])
	}
	for _, contentType := range []string{
		"application/json; charset=utf8", `APPLICATION/JSON;CHARSET="Utf-8"`, "text/json", "application/vnd.api+json", "application/activity+json; charset=utf-8",
	} {
		a := send(t, "POST", url, single, "Content-Type", contentType)
		require.Equal(t, 200, a.status, "%q: %s", contentType, a.body)
		require.JSONEq(t, `{"ok":true}`, a.body)
	}
	differing := send(t, "POST", url, single, "Content-Type", "application/json", "Content-Type", "text/csv")
	require.Equal(t, 415, differing.status)
	same := send(t, "POST", url, single, "Content-Type", "application/json", "Content-Type", "application/json")
	require.Equal(t, 200, same.status)
}

func TestDelimitedBodies(t *testing.T) {
	rig := newRig(t, writerPolicy)
	url := rig.serve(t) + "/v1/ingest?table=pages"
	for _, test := range []struct {
		contentType, body string
		status, succeeded int
		contains          string
	}{
		{"text/csv", "event_id,page\n1,/1\n2,\"/2\"\n", 200, 2, `"total":2`},
		{"Text/CSV; charset=UTF-8; header=PRESENT", "page,event_id\r\n/1,l1\r\n", 200, 1, `"total":1`},
		{"text/csv; header=absent", "1,/1,5\n", 200, 1, `"failed":0`},
		{"text/csv; foo=bar", "event_id,page\n", 200, 0, `"total":0`},
		{"text/tab-separated-values", "event_id\tpage\tn\r\ng1\t/a\t5\r\n", 200, 1, `"total":1`},
		{"text/tab-separated-values; header=absent", "g1\t/a\t\\N\n", 200, 1, `"total":1`},
		{"text/csv", "event_id,page,n\nj1,/a,1\nj2,/b,2,extra\nj3,/c\nj4,/d,4", 200, 2, "expected 3 fields and found 4"},
		{"text/csv", "event_id,event_id\nl2,l3\n", 400, 0, "record.duplicate_column"},
		{"text/csv", "event_id,nosuch\nl4,x\n", 400, 0, "nosuch"},
		{"text/csv", "event_id;page;n\ni1;/a;2\n", 400, 0, "event_id;page;n"},
		{"text/csv", "event_id,page\n1,\"open\n", 400, 0, "body.malformed"},
		{"text/tab-separated-values", "\n\n", 400, 0, "body.empty"},
	} {
		before := rig.rows()
		a := send(t, "POST", url, test.body, "Content-Type", test.contentType)
		require.Equal(t, test.status, a.status, "%q: %s", test.body, a.body)
		require.Contains(t, a.body, test.contains)
		require.Equal(t, before+test.succeeded, rig.rows(), test.body)
	}
}

func TestEmptyBodiesAndEmptyBatches(t *testing.T) {
	rig := newRig(t, writerPolicy)
	url := rig.serve(t) + "/v1/ingest?table=pages"
	for _, test := range []struct {
		contentType, body string
		status            int
	}{
		{"application/json", "", 400}, {"application/json", "\n \n", 400}, {"application/json", "[]", 200}, {"application/x-ndjson", "", 400},
	} {
		a := send(t, "POST", url, test.body, "Content-Type", test.contentType)
		require.Equal(t, test.status, a.status, a.body)
		if test.status == 400 {
			require.Equal(t, "body.empty", a.json(t)["code"])
			continue
		}
		require.EqualValues(t, 0, a.json(t)["total"])
		require.Equal(t, []any{}, a.json(t)["results"])
	}
	require.Zero(t, rig.rows())
}

func TestSingleObjectsAnswerForThemselves(t *testing.T) {
	url := newRig(t, writerPolicy).serve(t) + "/v1/ingest?table=pages"
	require.JSONEq(t, `{"ok":true}`, send(t, "POST", url, single, "Content-Type", "application/json").body)
	a := send(t, "POST", url, `{"event_id":"1","page":"/","n":"x"}`, "Content-Type", "application/json")
	require.Equal(t, 400, a.status)
	require.Equal(t, "record.type_mismatch", a.json(t)["code"])
	require.Equal(t, "n", a.json(t)["column"])
}

func TestBatchesAnswerForEachRecord(t *testing.T) {
	url := newRig(t, writerPolicy).serve(t) + "/v1/ingest?table=pages"
	body := `[{"event_id":"1","page":"/1"},{"event_id":"2","page":"/2","n":"x"},{"event_id":"3","page":"/3"}]`
	a := send(t, "POST", url, body, "Content-Type", "application/json").json(t)
	require.EqualValues(t, 3, a["total"])
	require.EqualValues(t, 2, a["succeeded"])
	require.EqualValues(t, 1, a["failed"])
	require.Len(t, a["results"], 1)
	all := send(t, "POST", url+"&results=all", body, "Content-Type", "application/json").json(t)
	require.Len(t, all["results"], 3)
	require.Equal(t, 400, send(t, "POST", url+"&results=some", body, "Content-Type", "application/json").status)
}

func TestQueueFailuresSayWhenToComeBack(t *testing.T) {
	for _, test := range []struct {
		err        error
		code, wait string
	}{
		{mq.ErrFull, "queue.full", "30"},
		{mq.ErrUnavailable, "queue.unavailable", "5"},
		{mq.ErrOutcomeUnknown, "queue.outcome_unknown", "5"},
	} {
		rig := newRig(t, writerPolicy)
		rig.publish = test.err
		url := rig.serve(t) + "/v1/ingest?table=pages"
		a := send(t, "POST", url, single, "Content-Type", "application/json")
		require.Equal(t, 503, a.status)
		require.Equal(t, test.code, a.json(t)["code"])
		require.Equal(t, test.wait, a.header.Get("Retry-After"))
		many := send(t, "POST", url, "["+single+"]", "Content-Type", "application/json")
		require.Equal(t, 503, many.status)
		require.EqualValues(t, 0, many.json(t)["succeeded"])
	}
}

func TestNoPolicyAtAll(t *testing.T) {
	rig := newRig(t, "{}")
	url := rig.serve(t)
	for _, headers := range [][]string{{}, {"Authorization", "Operator " + testOperatorKey}} {
		a := send(t, "POST", url+"/v1/ingest?table=pages", single, append(headers, "Content-Type", "application/json")...)
		require.Equal(t, 403, a.status, a.body)
	}
	require.Zero(t, rig.rows())
	require.Equal(t, 403, send(t, "GET", url+"/v1/ops/tenants", "").status)
	require.Equal(t, 200, send(t, "GET", url+"/v1/ops/tenants", "", "X-Operator-Key", testOperatorKey).status)
}

func TestSettingsReloadRoute(t *testing.T) {
	rig := newRig(t, writerPolicy)
	url := rig.serve(t) + "/v1/ops/settings/reload"
	require.Equal(t, 403, send(t, "POST", url, "").status)
	key := []string{"X-Operator-Key", testOperatorKey}
	require.Equal(t, true, send(t, "POST", url, "", key...).json(t)["adopted"])
	replaceSettings(t, rig.dir, "policies.json", `{"tables":{"pages":{"nosuch":{"insert":{}}}}}`)
	a := send(t, "POST", url, "", key...)
	require.Equal(t, 422, a.status)
	require.Equal(t, false, a.json(t)["adopted"])
	require.NotEmpty(t, a.json(t)["findings"])
	require.Equal(t, 404, send(t, "POST", url+"?tenant=birch", "", key...).status)
	require.Equal(t, 400, send(t, "POST", url+"?tenant=", "", key...).status)
	require.Equal(t, 400, send(t, "POST", url+"?tenant=0&tenant=0", "", key...).status)
}
