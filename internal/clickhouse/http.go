package clickhouse

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"strings"
	"time"
)

// Query runs a statement over HTTP. It waits for a connection as long as ctx
// lets it. The failure is an *Error; one that comes while the answer is read is
// Body's.
func (p *Pool) Query(ctx context.Context, q Request) (*Response, error) {
	started := time.Now()
	resp, err := p.run(ctx, q, p.core.slots, p.config.QueryTimeout)
	p.observe("query", started, err)
	return resp, err
}

// Insert runs an INSERT over HTTP. It succeeded only when ClickHouse says so in
// every place where it may say otherwise: the status, the header of an
// exception, the body, and the count of what was written, which views and
// repeated rows make no smaller. Asynchronous inserts, which report failures to nobody,
// are off unless q.Settings has them on.
func (p *Pool) Insert(ctx context.Context, q Request) error {
	started := time.Now()
	err := p.insert(ctx, q)
	p.observe("insert", started, err)
	return err
}

func (p *Pool) insert(ctx context.Context, q Request) error {
	q.ReadOnly = false
	q.Settings = withDefaults(q.Settings, insertSettings)
	resp, err := p.run(ctx, q, p.core.writes, p.config.QueryTimeout)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxExceptionBytes))
	if err != nil {
		return err
	}
	if code, message, found := parseException(string(text)); found {
		return p.exception(code, message, http.StatusOK)
	}
	if len(bytes.TrimSpace(text)) > 0 {
		return misdirected.error(Error{Status: http.StatusOK, Message: "answered an INSERT with text that is not ClickHouse's"})
	}
	return proven(q, resp.Summary)
}

// proven is nil when the summary shows that all rows were written. Something
// between us and ClickHouse, or in its place, may answer 200 to anything.
func proven(q Request, s Summary) error {
	switch {
	case s == Summary{}:
		return misdirected.error(Error{Status: http.StatusOK, Message: "answered an INSERT without X-ClickHouse-Summary: " +
			"what answers is no ClickHouse, or a proxy drops its headers"})
	case s.WrittenRows < uint64(q.Rows) && (!q.Repeat || s.WrittenRows != 0):
		return misdirected.error(Error{Status: http.StatusOK,
			Message: fmt.Sprintf("answered an INSERT of %d rows with %d written", q.Rows, s.WrittenRows)})
	}
	return nil
}

// Settings that the kind of a statement brings along. Maps of names, read only.
var (
	insertSettings = map[string]string{"async_insert": "0", "wait_for_async_insert": "1", "wait_end_of_query": "1"}
	readSettings   = map[string]string{"readonly": "2", "cancel_http_readonly_queries_on_client_close": "1"}
)

func withDefaults(settings, defaults map[string]string) map[string]string {
	all := maps.Clone(defaults)
	maps.Copy(all, settings)
	return all
}

// run sends a statement once one of the slots is free.
func (p *Pool) run(ctx context.Context, q Request, of slots, timeout time.Duration) (*Response, error) {
	asked := time.Now()
	ctx, release, err := p.core.enter(ctx, of, timeout)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	resp, err := p.send(ctx, q)
	if err != nil {
		// Judged first: release ends ctx, which would look like the cause.
		failure := p.failure(ctx, p.config.httpAddr(), err)
		release()
		return nil, failure
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get(headerExceptionCode) != "" {
		defer release()
		defer func() { _ = resp.Body.Close() }()
		return nil, p.readException(resp)
	}
	body := p.newBody(ctx, resp, q.MaxResponseBytes, release)
	return &Response{
		Body:        body,
		body:        body,
		ContentType: resp.Header.Get("Content-Type"),
		Format:      resp.Header.Get("X-ClickHouse-Format"),
		Summary:     parseSummary(resp.Header.Get(headerSummary)),
		QueryID:     resp.Header.Get(headerQueryID),
		Waited:      began.Sub(asked),
		Took:        time.Since(began),
	}, nil
}

// send sends q and reads the head of its answer. A redirect is never followed.
func (p *Pool) send(ctx context.Context, q Request) (*http.Response, error) {
	if p.short(q) {
		if request, done := p.render(q); done {
			return p.core.conns.roundTrip(ctx, p.config.httpAddr(), request)
		}
	}
	req, err := p.request(ctx, q)
	if err != nil {
		return nil, err
	}
	return p.core.transport.RoundTrip(req)
}

// request builds the HTTP request of q for the transport.
func (p *Pool) request(ctx context.Context, q Request) (*http.Request, error) {
	body, contentType, err := payload(q)
	if err != nil {
		return nil, fmt.Errorf("build the request: %w", err)
	}
	target := p.config.endpoint()
	target.RawQuery = string(p.appendQuery(nil, q))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), body)
	if err != nil {
		return nil, fmt.Errorf("build the request: %w", err)
	}
	if q.Body != nil && q.BodyBytes > 0 {
		req.ContentLength = q.BodyBytes
	}
	p.setHeaders(req.Header, q, contentType)
	return req, nil
}

// payload is the request's body. A statement alone is the body; with data it
// stands in the URL, and with external tables in a form.
func payload(q Request) (io.Reader, string, error) {
	switch {
	case len(q.External) > 0:
		return form(q)
	case q.Body != nil:
		return q.Body, "application/octet-stream", nil
	}
	return strings.NewReader(q.SQL), statementType, nil
}

// form holds statement and data as a multipart form. Data that is read is not
// copied.
func form(q Request) (io.Reader, string, error) {
	buf := &bytes.Buffer{}
	var before []io.Reader
	w := multipart.NewWriter(buf)
	if err := w.WriteField("query", q.SQL); err != nil {
		return nil, "", err
	}
	for _, t := range q.External {
		part, err := w.CreateFormFile(t.Name, t.Name)
		if err != nil {
			return nil, "", err
		}
		if t.From != nil {
			before = append(before, bytes.NewReader(bytes.Clone(buf.Bytes())), t.From)
			buf.Reset()
		} else if _, err := part.Write(t.Data); err != nil {
			return nil, "", err
		}
	}
	if err := w.Close(); err != nil {
		return nil, "", err
	}
	rest := bytes.NewReader(buf.Bytes())
	if before == nil {
		return rest, w.FormDataContentType(), nil
	}
	return io.MultiReader(append(before, rest)...), w.FormDataContentType(), nil
}

// setHeaders sets the tenant's headers and then ours, so that no header of the
// settings stands in for a credential.
func (p *Pool) setHeaders(header http.Header, q Request, contentType string) {
	for name, value := range p.config.Headers {
		header.Set(name, value)
	}
	header.Set("Content-Type", contentType)
	header.Del("Authorization")
	header.Del("X-ClickHouse-Database")
	header.Set("X-ClickHouse-User", p.config.Username)
	header.Set("X-ClickHouse-Key", p.config.Password)
	if q.repeatable() {
		// Not sent: it tells the transport that a repeat on a new connection is
		// harmless when the server had closed the kept one.
		header["Idempotency-Key"] = []string{}
	}
}
