package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// The client and the server agree: rows in, rows out, rows live, and errors.
func TestSDKAgainstTheServer(t *testing.T) {
	if _, err := exec.LookPath("npm"); err != nil {
		if os.Getenv("CI") != "" {
			require.NoError(t, err)
		}
		t.Skip("npm is not installed")
	}
	clickhouse := harness.StartClickHouse(t, binaries.Dir(t))
	clickhouse.Must(t, "CREATE TABLE pages (event_id String, page String, n Int64 DEFAULT 0) ENGINE = MergeTree ORDER BY event_id")
	server := startMoving(t, clickhouse, map[string]string{"ingest": `{"flush":{"max_wait":"100ms"}}`})
	server.AwaitReady(t)

	cmd := exec.CommandContext(t.Context(), "node", filepath.Join(harness.Root(t), "tests", "e2e", "sdk", "against_server.mjs"), buildSDK(t), server.URL)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
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
	require.NoError(t, json.Unmarshal(out, &saw), string(out))
	require.Equal(t, 2, saw.Result.Succeeded, string(out))
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
