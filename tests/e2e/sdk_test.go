package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

// builtSDK is the TypeScript client, built once for the whole package.
type builtSDK struct {
	once sync.Once
	dir  string
	err  error
}

func (b *builtSDK) remove() { _ = os.RemoveAll(b.dir) }

// build copies what npm packs and what it is made of, and builds it.
func (b *builtSDK) build(source string) {
	if b.dir, b.err = os.MkdirTemp("", "wavehouse-sdk-"); b.err != nil {
		return
	}
	out, err := exec.Command("sh", "-c", `cd "$0" && cp -r package.json package-lock.json .npmrc README.md LICENSE src scripts tsconfig*.json "$1" &&
		cd "$1" && npm ci --no-audit --no-fund --silent && npm run --silent build`, source, b.dir).CombinedOutput()
	if err != nil {
		b.err = fmt.Errorf("build the client: %w\n%s", err, out)
	}
}

// buildSDK returns the directory of the built client, whose parent can be packed.
func buildSDK(t *testing.T) string {
	t.Helper()
	sdk.once.Do(func() { sdk.build(filepath.Join(harness.Root(t), "sdk", "typescript")) })
	require.NoError(t, sdk.err)
	return filepath.Join(sdk.dir, "dist")
}

// The client and the server agree, wherever it runs: rows in, rows out, rows live, and
// errors.
func TestSDKAgainstTheServer(t *testing.T) {
	t.Parallel()
	tool(t, "npm")
	clickhouse := harness.StartClickHouse(t, binaries.Dir(t))
	scripts, bin := filepath.Join(harness.Root(t), "tests", "e2e", "sdk"), runtimes(t)
	inShell := func(command ...string) func(*testing.T, string) string {
		return func(t *testing.T, address string) string {
			cmd := exec.CommandContext(t.Context(), command[0], append(command[1:], filepath.Join(scripts, "against_server.mjs"), buildSDK(t), address)...)
			cmd.WaitDelay = 5 * time.Second
			out, err := cmd.Output()
			require.NoError(t, err, "%s", out)
			return string(out)
		}
	}
	for name, run := range map[string]func(t *testing.T, address string) string{
		"Node": inShell("node"), "Bun": inShell(filepath.Join(bin, "bun")), "Deno": inShell(filepath.Join(bin, "deno"), "run", "--allow-all", "--no-config"),
		"Workers": func(t *testing.T, address string) string { return inAWorker(t, scripts, bin, address) },
	} {
		t.Run(name, func(t *testing.T) {
			database := "sdk_" + strings.ToLower(name)
			clickhouse.Must(t, "CREATE DATABASE "+database)
			clickhouse.Must(t, "CREATE TABLE "+database+".pages (event_id String, page String, n Int64 DEFAULT 0) ENGINE = MergeTree ORDER BY event_id")
			server := harness.StartServer(t, harness.ServerOptions{Bin: binaries.Dir(t), ClickHouse: clickhouse, Config: map[string]string{
				"clickhouse": fmt.Sprintf(`{"addr":%q,"http_port":%d,"database":%q}`, clickhouse.Addr(), clickhouse.HTTPPort, database),
				"ingest":     `{"flush":{"max_wait":"100ms"}}`,
			}})
			server.AwaitReady(t)
			judgeScenes(t, run(t, server.URL))
		})
	}
}

// runtimes installs what the client runs in beside Node, and returns their folder.
func runtimes(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	scripts := filepath.Join(harness.Root(t), "tests", "e2e", "sdk")
	shell(t, "cd '"+scripts+"' && cp package.json package-lock.json .npmrc '"+dir+"/' && cd '"+dir+"' && npm ci --no-audit --no-fund --silent")
	return filepath.Join(dir, "node_modules", ".bin")
}

// inAWorker runs the scenes in a Worker, as Cloudflare's do, and returns its answer.
func inAWorker(t *testing.T, scripts, bin, address string) string {
	t.Helper()
	dir := t.TempDir()
	shell(t, "cp '"+scripts+"'/*.mjs '"+dir+"/' && cp -r '"+buildSDK(t)+"/esm' '"+dir+"/sdk'")
	files, err := filepath.Glob(filepath.Join(dir, "sdk", "*.js"))
	require.NoError(t, err)
	modules := []string{`(name = "worker.mjs", esModule = embed "worker.mjs")`, `(name = "scenes.mjs", esModule = embed "scenes.mjs")`}
	for _, file := range files {
		switch name := "sdk/" + filepath.Base(file); name {
		case "sdk/react.js", "sdk/vue.js": // of packages that are not here
		default:
			modules = append(modules, fmt.Sprintf(`(name = %q, esModule = embed %q)`, name, name))
		}
	}
	socket := filepath.Join(dir, "socket")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "worker.capnp"), []byte(fmt.Sprintf(`using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [(name = "main", worker = .main), (name = "internet", network = (allow = ["private"]))],
  sockets = [(name = "http", address = "unix:%s", http = (), service = "main")]
);
const main :Workerd.Worker = (compatibilityDate = "2026-01-01", modules = [%s]);
`, socket, strings.Join(modules, ", "))), 0o600))
	harness.StartProcess(t, dir, nil, filepath.Join(bin, "workerd"), "serve", "worker.capnp")
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	var body []byte
	harness.Eventually(t, time.Minute, func() error {
		answer, err := client.Get("http://worker/?server=" + address)
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }()
		body, err = io.ReadAll(answer.Body)
		return err
	})
	return string(body)
}

// judgeScenes holds what a client saw against what happened.
func judgeScenes(t *testing.T, out string) {
	t.Helper()
	var saw struct {
		Result struct {
			Total, Succeeded, Failed int
			Failures                 []struct {
				Index  int
				Code   string
				Column string
			}
		}
		Seen, Stored []string
		Refusal      string
	}
	require.NoError(t, json.Unmarshal([]byte(out), &saw), out)
	require.Equal(t, 2, saw.Result.Succeeded, out)
	require.Equal(t, 1, saw.Result.Failed)
	require.Len(t, saw.Result.Failures, 1)
	require.Equal(t, 1, saw.Result.Failures[0].Index, "the index in the caller's array")
	require.Equal(t, "record.type_mismatch", saw.Result.Failures[0].Code)
	require.Equal(t, []string{"s1", "s3"}, saw.Seen)
	require.Equal(t, []string{"s1", "s3"}, saw.Stored)
	require.Equal(t, "404 table.unknown", saw.Refusal)
}

// The Go client and the server agree.
func TestGoSDKAgainstTheServer(t *testing.T) {
	t.Parallel()
	clickhouse := harness.StartClickHouse(t, binaries.Dir(t))
	clickhouse.Must(t, "CREATE TABLE pages (event_id String, page String, n Int64 DEFAULT 0) ENGINE = MergeTree ORDER BY event_id")
	server := startMoving(t, clickhouse, map[string]string{"ingest": `{"flush":{"max_wait":"100ms"}}`})
	server.AwaitReady(t)
	cmd := exec.CommandContext(t.Context(), "go", "test", "-tags", "server", "-count=1", "-v", "-run", "TestAgainstAServer", ".")
	cmd.Dir = filepath.Join(harness.Root(t), "sdk", "go")
	cmd.Env = append(os.Environ(), "WAVEHOUSE_URL="+server.URL)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "--- PASS: TestAgainstAServer")
}
