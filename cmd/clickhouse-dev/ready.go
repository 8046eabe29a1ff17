package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"time"
)

const (
	readyBudget   = 60 * time.Second
	readyInterval = 20 * time.Millisecond
)

// waitReady polls until the ports answer, and returns the server's version.
func waitReady(o *options, stopped <-chan struct{}) (string, error) {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	tick := time.NewTicker(readyInterval)
	defer tick.Stop()
	deadline := time.After(readyBudget)
	for {
		select {
		case <-stopped:
			return "", errors.New("stopped before the server answered")
		case <-deadline:
			return "", fmt.Errorf("the server did not answer within %s", readyBudget)
		case <-tick.C:
		}
		if version, ok := askVersion(client, loopback(o.http.port()).String()); ok && (o.tcp == nil || accepts(loopback(o.tcp.engine).String())) {
			return version, nil
		}
	}
}

// versionPattern finds the version in the answer to SELECT version(), and in
// the refusal of it when the default user has a password.
var versionPattern = regexp.MustCompile(`\d+\.\d+\.\d+\.\d+`)

func askVersion(client *http.Client, address string) (string, bool) {
	resp, err := client.Get("http://" + address + "/?query=SELECT+version()")
	if err != nil {
		return "", false
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return "", false
	}
	return string(versionPattern.Find(body)), true
}

func accepts(address string) bool {
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}
