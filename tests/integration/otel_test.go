package integration

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The tables that OpenTelemetry's exporter for ClickHouse makes.
const (
	otelTraces = `CREATE TABLE otel_traces (
	Timestamp DateTime64(9) CODEC(Delta, ZSTD(1)), TraceId String CODEC(ZSTD(1)), SpanId String CODEC(ZSTD(1)), ParentSpanId String CODEC(ZSTD(1)),
	TraceState String CODEC(ZSTD(1)), SpanName LowCardinality(String) CODEC(ZSTD(1)), SpanKind LowCardinality(String) CODEC(ZSTD(1)),
	ServiceName LowCardinality(String) CODEC(ZSTD(1)), ResourceAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
	ScopeName String CODEC(ZSTD(1)), ScopeVersion String CODEC(ZSTD(1)), SpanAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
	Duration UInt64 CODEC(ZSTD(1)), StatusCode LowCardinality(String) CODEC(ZSTD(1)), StatusMessage String CODEC(ZSTD(1)),
	Events Nested (Timestamp DateTime64(9), Name LowCardinality(String), Attributes Map(LowCardinality(String), String)) CODEC(ZSTD(1)),
	Links Nested (TraceId String, SpanId String, TraceState String, Attributes Map(LowCardinality(String), String)) CODEC(ZSTD(1)),
	INDEX idx_trace_id TraceId TYPE bloom_filter(0.001) GRANULARITY 1,
	INDEX idx_span_attr_key mapKeys(SpanAttributes) TYPE bloom_filter(0.01) GRANULARITY 1,
	INDEX idx_duration Duration TYPE minmax GRANULARITY 1
) ENGINE = MergeTree() PARTITION BY toDate(Timestamp) ORDER BY (ServiceName, SpanName, toDateTime(Timestamp))
SETTINGS index_granularity = 8192, ttl_only_drop_parts = 1`
	otelLogs = `CREATE TABLE otel_logs (
	Timestamp DateTime64(9) CODEC(Delta(8), ZSTD(1)), TimestampTime DateTime DEFAULT toDateTime(Timestamp),
	TraceId String CODEC(ZSTD(1)), SpanId String CODEC(ZSTD(1)), TraceFlags UInt8, SeverityText LowCardinality(String) CODEC(ZSTD(1)), SeverityNumber UInt8,
	ServiceName LowCardinality(String) CODEC(ZSTD(1)), Body String CODEC(ZSTD(1)), ResourceSchemaUrl LowCardinality(String) CODEC(ZSTD(1)),
	ResourceAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)), ScopeSchemaUrl LowCardinality(String) CODEC(ZSTD(1)), ScopeName String CODEC(ZSTD(1)),
	ScopeVersion LowCardinality(String) CODEC(ZSTD(1)), ScopeAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
	LogAttributes Map(LowCardinality(String), String) CODEC(ZSTD(1)),
	INDEX idx_trace_id TraceId TYPE bloom_filter(0.001) GRANULARITY 1,
	INDEX idx_body Body TYPE tokenbf_v1(32768, 3, 0) GRANULARITY 8
) ENGINE = MergeTree PARTITION BY toDate(TimestampTime) PRIMARY KEY (ServiceName, TimestampTime) ORDER BY (ServiceName, TimestampTime, Timestamp)`
)

func TestOpenTelemetrysTablesCanBePostedTo(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, otelTraces, otelLogs)
	const span = `"Timestamp":"2026-03-04T05:06:07.123456789Z","TraceId":"5b8efff798038103d269b633813fc60c","SpanId":"eee19b7ec3c1b174","ParentSpanId":"","TraceState":"",
		"SpanName":"GET /","SpanKind":"Server","ServiceName":"shop","ResourceAttributes":{"host.name":"h"},"ScopeName":"http","ScopeVersion":"1",
		"SpanAttributes":{"http.status_code":"200"},"Duration":1500,"StatusCode":"Ok","StatusMessage":""`
	inserted := func(table, contentType, body string) {
		t.Helper()
		a := s.do(http.MethodPost, "/v1/ingest?wait=inserted&timeout=55s&table="+table, body, "Content-Type", contentType)
		require.Equal(t, http.StatusOK, a.status, a.body)
		require.NotContains(t, a.body, `"failed":1`)
		require.Contains(t, a.body, `"inserted":true`)
	}
	inserted("otel_traces", "application/json", `{`+span+`,"Events":[{"Timestamp":"2026-03-04T05:06:07.2Z","Name":"retry","Attributes":{"n":"1"}},{"Timestamp":1772600767,"Name":"done"}],
		"Links":[{"TraceId":"a","SpanId":"b","TraceState":""}]}`)
	inserted("otel_traces", "application/json", `{`+strings.Replace(span, "GET /", "none", 1)+`}`)
	inserted("otel_traces", "application/json", `{`+strings.Replace(span, "GET /", "arrays", 1)+`,"Events.Timestamp":[1],"Events.Name":["x"],"Events.Attributes":[{"a":"b"}]}`)
	inserted("otel_traces", "text/csv", "Timestamp,TraceId,SpanId,ParentSpanId,TraceState,SpanName,SpanKind,ServiceName,ResourceAttributes,ScopeName,ScopeVersion,SpanAttributes,Duration,StatusCode,StatusMessage,Events.Timestamp,Events.Name,Events.Attributes\n"+
		`2026-03-04T05:06:07Z,t,s,"","",csv,Server,shop,"{'host.name':'h'}",http,1,{},5,Ok,"","['2026-03-04T05:06:07Z']","['x']","[{'k':'v'}]"`+"\n")
	inserted("otel_logs", "application/x-ndjson", `{"Timestamp":"2026-03-04T05:06:07.123456789Z","TraceId":"","SpanId":"","TraceFlags":0,"SeverityText":"INFO","SeverityNumber":9,"ServiceName":"shop","Body":"hello","ResourceSchemaUrl":"","ResourceAttributes":{},"ScopeSchemaUrl":"","ScopeName":"","ScopeVersion":"","ScopeAttributes":{},"LogAttributes":{"k":"v"}}`)
	rows := s.ch.Rows(t, "SELECT SpanName, toString(Events.Name), toString(Events.Attributes), toString(Links.TraceId), toString(Links.Attributes) FROM otel_traces ORDER BY SpanName")
	assert.Equal(t, [][]string{
		{"GET /", "['retry','done']", "[{'n':'1'},{}]", "['a']", "[{}]"},
		{"arrays", "['x']", "[{'a':'b'}]", "[]", "[]"},
		{"csv", "['x']", "[{'k':'v'}]", "[]", "[]"},
		{"none", "[]", "[]", "[]", "[]"},
	}, rows)
	assert.Equal(t, "2026-03-04 05:06:07", s.ch.Value(t, "SELECT toString(TimestampTime, 'UTC') FROM otel_logs"))
	a := s.do(http.MethodPost, "/v1/ingest?table=otel_traces", `{`+span+`,"Events.Timestamp":[1],"Events.Name":[],"Events.Attributes":[{}]}`, "Content-Type", "application/json")
	refused(t, a, http.StatusBadRequest, "record.type_mismatch")
	assert.Contains(t, a.body, "column Events.Name has 0 elements and column Events.Timestamp has 1")
}
