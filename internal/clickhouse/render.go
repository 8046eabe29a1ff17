package clickhouse

import (
	"net/http"
	"net/url"
	"strconv"
)

const (
	statementType = "text/plain; charset=utf-8"
	// maxShort bounds the statement of a short request, in bytes: it is written
	// whole before anything of the answer is read.
	maxShort = 64 << 10
)

// short says whether q goes by the kept connections of our own.
func (p *Pool) short(q Request) bool {
	return q.repeatable() && q.Body == nil && len(q.External) == 0 && len(q.SQL) <= maxShort && p.config.HTTPScheme == "http"
}

// render writes a short request as it is sent. It is not done when a header
// needs care, which the transport takes.
func (p *Pool) render(q Request) (request []byte, done bool) {
	if !plainHeader("X-Host", p.config.httpAddr()) {
		return nil, false
	}
	out := make([]byte, 0, len(q.SQL)+1536)
	out = append(out, "POST /?"...)
	out = p.appendQuery(out, q)
	out = append(out, " HTTP/1.1\r\nHost: "...)
	out = append(out, p.config.httpAddr()...)
	header := make(http.Header, 4+len(p.config.Headers))
	p.setHeaders(header, q, statementType)
	for name, values := range header {
		for _, value := range values {
			if !plainHeader(name, value) {
				return nil, false
			}
			out = append(out, "\r\n"...)
			out = append(out, name...)
			out = append(out, ": "...)
			out = append(out, value...)
		}
	}
	out = append(out, "\r\nContent-Length: "...)
	out = strconv.AppendInt(out, int64(len(q.SQL)), 10)
	out = append(out, "\r\n\r\n"...)
	return append(out, q.SQL...), true
}

// plainHeader reports whether a header can be sent as it is.
func plainHeader(name, value string) bool {
	for _, c := range []byte(value) {
		if c < ' ' || c >= 0x7f {
			return false
		}
	}
	for _, c := range []byte(name) {
		if c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	switch name {
	case "", "Host", "Content-Length", "Transfer-Encoding", "Connection", "Trailer", "Expect", "Upgrade", "Te":
		return false
	}
	return true
}

// appendQuery appends the parameters of the URL: the database, what the
// statement binds, and what travels with it.
func (p *Pool) appendQuery(out []byte, q Request) []byte {
	out = append(out, "database="...)
	out = append(out, url.QueryEscape(p.config.Database)...)
	for name, value := range q.Params {
		out = appendParameter(out, "param_", name, value)
	}
	if q.ReadOnly {
		for name, value := range readSettings {
			if _, own := q.Settings[name]; !own {
				out = appendParameter(out, "", name, value)
			}
		}
	}
	for name, value := range q.Settings {
		out = appendParameter(out, "", name, value)
	}
	for _, t := range q.External {
		out = appendParameter(out, t.Name, "_structure", t.Structure)
		out = appendParameter(out, t.Name, "_format", t.Format)
	}
	if q.Body != nil && len(q.External) == 0 {
		out = appendParameter(out, "", "query", q.SQL)
	}
	return out
}

func appendParameter(out []byte, prefix, name, value string) []byte {
	out = append(out, '&')
	out = append(out, prefix...)
	out = append(out, url.QueryEscape(name)...)
	out = append(out, '=')
	return append(out, url.QueryEscape(value)...)
}
