// Package dynamotest runs DynamoDBs for tests: dynalite, and a fake that knows the
// requests of the store of seen ids and nothing else, and fails as it is told.
package dynamotest

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Region, KeyID and Secret are what the servers here are asked with; any would do
// for dynalite.
const (
	Region = "eu-test-1"
	KeyID  = "key-of-the-tests"
	Secret = "secret-of-the-tests"
)

// Dynalite is a running dynalite.
type Dynalite struct {
	// URL is its endpoint.
	URL string

	cmd  *exec.Cmd
	stop sync.Once
}

// StartDynalite runs one until the test ends. Without it the test is skipped, or
// fails where CI is true.
func StartDynalite(t testing.TB) *Dynalite {
	t.Helper()
	_, file, _, _ := runtime.Caller(0)
	root := filepath.Join(filepath.Dir(file), "..", "..", "..")
	found, _ := filepath.Glob(filepath.Join(root, ".cache", "dynalite", "*", "node_modules", "dynalite"))
	if len(found) == 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("no dynalite: run scripts/fetch-dynalite.sh")
		}
		t.Skip("no dynalite: run scripts/fetch-dynalite.sh")
	}
	d := &Dynalite{cmd: exec.Command("node", filepath.Join(root, "scripts", "deps", "dynalite", "serve.mjs"), filepath.Dir(filepath.Dir(found[0])))}
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	d.cmd.Stderr = os.Stderr
	// It ends with its standard input, so with this process too.
	if _, err := d.cmd.StdinPipe(); err != nil {
		t.Fatalf("start dynalite: %v", err)
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("start dynalite: %v", err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatalf("start dynalite: %v", err)
	}
	t.Cleanup(d.Stop)
	port := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n')
		port <- strings.TrimSpace(line)
	}()
	select {
	case p := <-port:
		if p == "" {
			t.Fatal("dynalite ended at once")
		}
		d.URL = "http://127.0.0.1:" + p
	case <-time.After(time.Minute):
		t.Fatal("dynalite did not say its port")
	}
	return d
}

// Stop ends it at once.
func (d *Dynalite) Stop() {
	d.stop.Do(func() {
		_ = d.cmd.Process.Kill()
		_ = d.cmd.Wait()
	})
}
