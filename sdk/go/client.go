package wavehouse

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	defaultTimeout = 30 * time.Second
	defaultRetries = 3
	// compressFrom is the least body that is sent as gzip, in bytes.
	compressFrom = 8 << 10
	// maxErrorBody bounds what is read of a refusal, in bytes.
	maxErrorBody = 1 << 20
)

// Client calls one server.
type Client struct {
	base    *url.URL
	http    *http.Client
	tenant  string
	headers http.Header
	token   func(ctx context.Context) (string, error)
	logger  *slog.Logger
	timeout time.Duration
	retries int
	sleep   func(ctx context.Context, d time.Duration) error
}

// Option sets one thing of a Client.
type Option func(*Client)

// WithToken sends a bearer token with every request.
func WithToken(token string) Option {
	return WithTokenSource(func(context.Context) (string, error) { return token, nil })
}

// WithTokenSource asks for a bearer token before every attempt. "" sends none.
func WithTokenSource(source func(ctx context.Context) (string, error)) Option {
	return func(c *Client) { c.token = source }
}

// WithTenant names the tenant; without it the server serves its default one.
func WithTenant(tenant string) Option { return func(c *Client) { c.tenant = tenant } }

// WithHTTPClient sends requests by client, whose redirects are never followed:
// credentials stay with the configured address.
func WithHTTPClient(client *http.Client) Option { return func(c *Client) { c.http = client } }

// WithHeader adds a header to every request.
func WithHeader(key, value string) Option { return func(c *Client) { c.headers.Add(key, value) } }

// WithLogger tells repeated attempts and reconnects, at level Debug.
func WithLogger(logger *slog.Logger) Option { return func(c *Client) { c.logger = logger } }

// WithTimeout bounds each attempt, and for a stream the wait for its headers.
// Default 30 s.
func WithTimeout(d time.Duration) Option { return func(c *Client) { c.timeout = d } }

// WithRetries says how often a failed attempt is repeated. Default 3.
func WithRetries(n int) Option { return func(c *Client) { c.retries = n } }

// New makes a client of the server at address, such as
// "https://events.example.com"; a path is kept. The error is an *Error with the
// code client.invalid_option.
func New(address string, options ...Option) (*Client, error) {
	base, err := url.Parse(strings.TrimRight(address, "/"))
	switch {
	case err != nil:
		return nil, &Error{Code: CodeInvalidOption, Message: "the address does not parse", cause: err}
	case base.Scheme != "http" && base.Scheme != "https" || base.Host == "":
		return nil, &Error{Code: CodeInvalidOption, Message: fmt.Sprintf("the address %q is no http or https URL", address)}
	case base.User != nil || base.RawQuery != "" || base.Fragment != "":
		return nil, &Error{Code: CodeInvalidOption, Message: "the address must not carry credentials, a query or a fragment"}
	}
	c := &Client{
		base: base, http: http.DefaultClient, headers: http.Header{}, logger: slog.New(slog.DiscardHandler),
		timeout: defaultTimeout, retries: defaultRetries, sleep: sleep,
	}
	for _, option := range options {
		option(c)
	}
	own := *c.http
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	own.Timeout = 0 // it would end streams
	c.http = &own
	return c, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// call is one request that may be made several times.
type call struct {
	method, path string
	query        url.Values
	header       http.Header
	body         []byte
	// safe says that doing it twice is doing it once; else it is repeated only
	// after an answer that says that nothing of it was stored.
	safe bool
	// extra is added to the time that an attempt may take.
	extra time.Duration
}

// do makes the call, repeating it as allowed, and reads its answer.
func (c *Client) do(ctx context.Context, q call) ([]byte, http.Header, error) {
	for attempt := 1; ; attempt++ {
		body, header, err := c.attempt(ctx, q)
		if err == nil {
			return body, header, nil
		}
		if attempt > c.retries || !err.repeatable(q.safe) {
			return nil, nil, err
		}
		wait := backoff(attempt, err.RetryAfter)
		c.logger.DebugContext(ctx, "repeating a request", "path", q.path, "attempt", attempt, "wait", wait, "error", err)
		if gone := c.sleep(ctx, wait); gone != nil {
			return nil, nil, &Error{Code: CodeAborted, Message: "the call was aborted before it was repeated: " + err.Message, cause: errors.Join(gone, err)}
		}
	}
}

func (c *Client) attempt(ctx context.Context, q call) ([]byte, http.Header, *Error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout+q.extra, errTimeout)
	defer cancel()
	response, failure := c.open(ctx, q)
	if failure != nil {
		return nil, nil, failure
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, nil, failed(ctx, err)
	}
	return body, response.Header, nil
}

// open makes one attempt and returns an answer whose status is 2xx, body unread.
func (c *Client) open(ctx context.Context, q call) (*http.Response, *Error) {
	target := c.base.JoinPath(q.path)
	target.RawQuery = q.query.Encode()
	sent, encoding := q.body, ""
	if len(sent) >= compressFrom {
		sent, encoding = compressed(sent), "gzip"
	}
	var reader io.Reader
	if sent != nil {
		reader = bytes.NewReader(sent)
	}
	request, err := http.NewRequestWithContext(ctx, q.method, target.String(), reader)
	if err != nil {
		return nil, &Error{Code: CodeInvalidOption, Message: "the request cannot be made", cause: err}
	}
	for key, values := range c.headers {
		request.Header[key] = values
	}
	for key, values := range q.header {
		request.Header[key] = values
	}
	if encoding != "" {
		request.Header.Set("Content-Encoding", encoding)
	}
	if c.tenant != "" {
		request.Header.Set("X-Tenant-ID", c.tenant)
	}
	if c.token != nil {
		token, err := c.token(ctx)
		if err != nil {
			return nil, &Error{Code: CodeToken, Message: "the token source failed: " + err.Error(), cause: err}
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, failed(ctx, err)
	}
	if response.StatusCode/100 == 2 {
		noteMeta(ctx, response.Header)
		return response, nil
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode/100 == 3 {
		return nil, &Error{
			Code: CodeRedirect, Status: response.StatusCode,
			Message: fmt.Sprintf("the server answered with a redirect to %q, which is not followed: credentials stay with the configured address", response.Header.Get("Location")),
		}
	}
	return nil, refusal(response)
}

func compressed(body []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(body) // a Buffer takes all
	_ = w.Close()
	return b.Bytes()
}

var errTimeout = errors.New("the server did not answer in time")

// failed says in the client's terms why there was no answer.
func failed(ctx context.Context, err error) *Error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errTimeout):
		return &Error{Code: CodeTimeout, Message: errTimeout.Error(), Retryable: true, cause: err}
	case cause != nil:
		return &Error{Code: CodeAborted, Message: "the call was aborted: " + cause.Error(), cause: cause}
	}
	return &Error{Code: CodeNetwork, Message: "no answer from the server: " + err.Error(), Retryable: true, cause: err}
}

const (
	firstBackoff      = 250 * time.Millisecond
	longestBackoff    = 20 * time.Second
	longestRetryAfter = time.Minute
)

// backoff is the wait before repeat number attempt: full jitter over a doubling
// bound, on top of what the server asked for, so that clients that were refused
// together come back apart.
func backoff(attempt int, retryAfter time.Duration) time.Duration {
	ceiling := min(longestBackoff, firstBackoff<<min(attempt-1, 10))
	return retryAfter + rand.N(ceiling) //nolint:gosec // jitter, not a secret
}
