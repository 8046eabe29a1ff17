package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

const (
	// opsTimeout bounds one request to a running server; the server bounds its
	// own work well below it.
	opsTimeout = 2 * time.Minute
	// maxOpsAnswer bounds what is read of an answer, in bytes.
	maxOpsAnswer = 64 << 20
)

// opsFlags say which running server a command speaks to, and for which tenant.
type opsFlags struct {
	server, keyFile, tenant *string
	// named reports whether the tenant was.
	named func() bool
}

func addOpsFlags(cmd *cobra.Command, env []string) opsFlags {
	flags := cmd.PersistentFlags()
	return opsFlags{
		server:  flags.String("server", "http://127.0.0.1:"+healthPort(env), "the running server"),
		keyFile: flags.String("operator-key-file", "", "a file with the operator key (else WH_AUTH_OPERATOR_KEY or WH_AUTH_OPERATOR_KEY_FILE)"),
		tenant:  flags.String("tenant", string(tenant.Default), "the tenant"),
		named:   func() bool { return flags.Changed("tenant") },
	}
}

// client reads the key, which is never an argument: those show in the list of
// processes.
func (f opsFlags) client(env []string) (*opsClient, error) {
	base, err := url.Parse(strings.TrimRight(*f.server, "/"))
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, &usageError{fmt.Errorf("--server %q: want a URL like http://localhost:8080", *f.server)}
	}
	id, err := tenant.Parse(*f.tenant)
	if err != nil {
		return nil, &usageError{fmt.Errorf("--tenant: %w", err)}
	}
	key, err := operatorKey(*f.keyFile, env)
	if err != nil {
		return nil, err
	}
	return &opsClient{base: base, key: key, tenant: id, named: f.named(), http: &http.Client{
		Timeout: opsTimeout,
		// The key is for this server alone.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func operatorKey(file string, env []string) (string, error) {
	if file == "" {
		if key := lookup(env, "WH_AUTH_OPERATOR_KEY"); key != "" {
			return key, nil
		}
		file = lookup(env, "WH_AUTH_OPERATOR_KEY_FILE")
	}
	if file == "" {
		return "", &usageError{errors.New("name the operator key: --operator-key-file, WH_AUTH_OPERATOR_KEY or WH_AUTH_OPERATOR_KEY_FILE")}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read the operator key: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// opsClient asks a running server's ops routes.
type opsClient struct {
	base   *url.URL
	key    string
	tenant tenant.ID
	// named: else the server takes the only one that it has, or says that it has many.
	named bool
	http  *http.Client
}

// opsError is an answer that is not a success.
type opsError struct {
	status string
	Code   string `json:"code"`
	Text   string `json:"error"`
	Hint   string `json:"hint"`
	// body is the whole answer.
	body []byte
}

func (e *opsError) Error() string {
	switch {
	case e.Code == "":
		return "the server answered " + e.status
	case e.Hint != "":
		return fmt.Sprintf("%s (%s); %s", e.Text, e.Code, e.Hint)
	}
	return fmt.Sprintf("%s (%s)", e.Text, e.Code)
}

// ask sends a request and decodes the answer; body nil sends none.
func (c *opsClient) ask(ctx context.Context, method, path string, query url.Values, body, answer any) error {
	if query == nil {
		query = url.Values{}
	}
	if c.named {
		query.Set("tenant", c.tenant.String())
	}
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encode the request: %w", err)
		}
		sent = bytes.NewReader(text)
	}
	target := c.base.JoinPath(path)
	target.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, method, target.String(), sent)
	if err != nil {
		return fmt.Errorf("ask %s: %w", c.base, err)
	}
	request.Header.Set("X-Operator-Key", c.key)
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("ask %s: %w", c.base, err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxOpsAnswer))
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", c.base, err)
	}
	if response.StatusCode != http.StatusOK {
		failure := &opsError{status: response.Status, body: text}
		_ = json.Unmarshal(text, failure)
		return failure
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("read the answer of %s: %w", c.base, err)
	}
	return nil
}
