package api

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Problem is an answer that is not a success: the one error shape of every
// route. Handlers return one (or an error that problemOf translates).
type Problem struct {
	// Status is the HTTP status.
	Status int
	// Code is stable: clients may compare it.
	Code string
	// Message is a sentence for people. It never holds a secret or a cause
	// that is not the caller's business.
	Message string
	// Hint says what a person can do about it; "" for none.
	Hint string
	// Retryable says that the same request may succeed later.
	Retryable bool
	// RetryAfter is sent in whole seconds, rounded up; 0 sends none.
	RetryAfter time.Duration
	// Fields are added to the body.
	Fields map[string]any
	// Header holds further headers of the answer.
	Header map[string]string
	// Cause is logged and never sent.
	Cause error
}

func (p *Problem) Error() string { return p.Code + ": " + p.Message }

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Cause }

func problem(status int, code, message string) *Problem {
	return &Problem{Status: status, Code: code, Message: message}
}

// retryable returns the problem with a Retry-After.
func (p *Problem) retryable(after time.Duration) *Problem {
	p.Retryable, p.RetryAfter = true, after
	return p
}

func (p *Problem) because(cause error) *Problem {
	p.Cause = cause
	return p
}

func (p *Problem) hint(hint string) *Problem {
	p.Hint = hint
	return p
}

func (p *Problem) with(fields map[string]any) *Problem {
	p.Fields = fields
	return p
}

// write sends the problem. It must be called before anything was written.
func (p *Problem) write(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Del("Content-Encoding")
	header.Del("Content-Length")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cache-Control", "no-store")
	for name, value := range p.Header {
		header.Set(name, value)
	}
	if p.RetryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(int(math.Ceil(p.RetryAfter.Seconds()))))
	}
	if p.Status == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", `Bearer error="invalid_token"`)
	}
	body := p.body(header.Get(requestIDHeader))
	header.Set("Content-Type", "application/json")
	if strings.Contains(r.Header.Get("Accept"), "application/problem+json") {
		header.Set("Content-Type", "application/problem+json")
		body["type"], body["title"], body["status"], body["detail"] = "about:blank", http.StatusText(p.Status), p.Status, p.Message
	}
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		_ = json.NewEncoder(w).Encode(body)
	}
}

func (p *Problem) body(requestID string) map[string]any {
	body := make(map[string]any, len(p.Fields)+5)
	for k, v := range p.Fields {
		body[k] = v
	}
	body["error"], body["code"], body["retryable"], body["request_id"] = p.Message, p.Code, p.Retryable, requestID
	if p.Hint != "" {
		body["hint"] = p.Hint
	}
	return body
}
