package auth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// maxKeySetBytes bounds an answer of a key server, decompressed.
const maxKeySetBytes = 1 << 20

// newClient is how key sets are fetched. A redirect is not followed: who may
// say where keys come from is whoever writes the settings, and nobody else.
func newClient(timeout time.Duration) *http.Client {
	dialer := net.Dialer{Timeout: timeout}
	return &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: timeout, ResponseHeaderTimeout: timeout, MaxResponseHeaderBytes: 64 << 10,
			MaxIdleConns: 2 * maxFetches, MaxIdleConnsPerHost: 1, IdleConnTimeout: 30 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// fetch returns the answer of a key server. The error never holds the URL's
// query, which may be a secret.
func fetch(ctx context.Context, client *http.Client, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, errors.New("the URL does not parse")
	}
	request.Header.Set("Accept", "application/jwk-set+json, application/json")
	request.Header.Set("User-Agent", "wavehouse")
	response, err := client.Do(request)
	if err != nil {
		return nil, withoutURL(err)
	}
	defer func() { _ = response.Body.Close() }()
	switch {
	case response.StatusCode >= 300 && response.StatusCode < 400:
		return nil, fmt.Errorf("it answers with a redirect (status %d), which is not followed: name the final URL", response.StatusCode)
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("it answers with status %d", response.StatusCode)
	case response.ContentLength > maxKeySetBytes:
		return nil, errTooLarge
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, maxKeySetBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read its answer: %w", err)
	}
	if len(data) > maxKeySetBytes {
		return nil, errTooLarge
	}
	return data, nil
}

var errTooLarge = fmt.Errorf("its answer is larger than %d bytes", maxKeySetBytes)

func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// shown is a URL as logs may hold it: without its query and credentials.
func shown(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "?"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
