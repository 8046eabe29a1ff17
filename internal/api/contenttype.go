package api

import (
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/wavehouse/wavehouse/internal/record"
)

const acceptedTypes = "application/json or another type that ends in +json, application/x-ndjson, " +
	"text/csv or text/tab-separated-values"

// ingestFormat reads the Content-Type of an ingest request. beacon says that
// text/plain, which is what navigator.sendBeacon calls a text, is JSON.
func ingestFormat(header http.Header, beacon bool) (record.InputFormat, error) {
	values := header.Values("Content-Type")
	slices.Sort(values)
	values = slices.Compact(values)
	if len(values) != 1 || strings.Contains(values[0], ",") {
		return 0, unsupportedType("send one Content-Type: " + acceptedTypes)
	}
	if values[0] == "application/json" {
		return record.JSON, nil // what nearly all send, without parameters
	}
	mediaType, params, err := mime.ParseMediaType(values[0])
	if err != nil {
		return 0, unsupportedType("the Content-Type does not parse: send " + acceptedTypes)
	}
	// ASCII is UTF-8.
	switch strings.ToLower(params["charset"]) {
	case "", "utf-8", "utf8", "us-ascii", "ascii":
	default:
		return 0, unsupportedType("the charset must be utf-8")
	}
	switch mediaType {
	case "application/json", "text/json":
		return record.JSON, nil
	case "application/x-ndjson", "application/ndjson", "application/jsonl", "application/jsonlines",
		"application/x-jsonl", "application/x-jsonlines", "text/x-ndjson":
		return record.NDJSON, nil
	case "text/csv":
		return withHeader(params, record.CSV, record.CSVWithoutHeader)
	case "text/tab-separated-values":
		return withHeader(params, record.TSV, record.TSVWithoutHeader)
	case "text/plain":
		if beacon {
			return record.JSON, nil
		}
		return 0, unsupportedType("text/plain is taken, as JSON, where ingest.beacon is set: else send " + acceptedTypes)
	}
	if strings.HasSuffix(mediaType, "+json") {
		return record.JSON, nil
	}
	return 0, unsupportedType("the Content-Type is not supported: send " + acceptedTypes)
}

// eventData says where the data of CloudEvents goes, "" when the body holds none.
func eventData(c *request, header http.Header) string {
	sent := header.Get("Content-Type")
	if sent == "application/json" {
		return ""
	}
	mediaType, _, _ := mime.ParseMediaType(sent)
	switch mediaType {
	case "application/cloudevents+json", "application/cloudevents-batch+json":
		return c.settings.Config.Ingest.CloudEvents.Data
	}
	return ""
}

// withHeader chooses by the parameter header, as RFC 4180 registers it.
func withHeader(params map[string]string, present, absent record.InputFormat) (record.InputFormat, error) {
	value, sent := params["header"]
	switch {
	case !sent, strings.EqualFold(value, "present"):
		return present, nil
	case strings.EqualFold(value, "absent"):
		return absent, nil
	}
	return 0, unsupportedType("the parameter header must be present or absent")
}

func unsupportedType(message string) *Problem {
	return problem(http.StatusUnsupportedMediaType, "content_type.unsupported", message).
		hint("for example -H 'Content-Type: application/json'")
}
