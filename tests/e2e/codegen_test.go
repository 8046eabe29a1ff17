package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

// What codegen writes is what the role may use: the compilers say so, with
// programs that use it rightly and wrongly, and the server agrees.
func TestTypesOfARoleAreWhatItMayUse(t *testing.T) {
	t.Parallel()
	tool(t, "npm")
	clickhouse := harness.StartClickHouse(t, binaries.Dir(t))
	clickhouse.Must(t, `CREATE TABLE flights (
		id UUID, origin LowCardinality(String), delay Nullable(Int32), bytes UInt64, share Float64, price Decimal(18, 4),
		at DateTime64(3), state Enum8('on' = 1, 'off' = 2), tags Array(LowCardinality(String)), extra Map(String, Nullable(Int64)),
		place Tuple(lat Float64, lon Float64), secret String, seen DateTime DEFAULT now(), day Date MATERIALIZED toDate(at)
	) ENGINE = MergeTree ORDER BY id`)
	clickhouse.Must(t, "CREATE TABLE hidden (id UInt8) ENGINE = MergeTree ORDER BY id")
	server := harness.StartServer(t, harness.ServerOptions{Bin: binaries.Dir(t), ClickHouse: clickhouse,
		Policies: `{"default_role":"public","tables":{"flights":{"viewer":{
			"select":{"deny_columns":["secret"]},"insert":{"deny_columns":["secret","place"],"check":{"origin":{"_eq":"FRA"}}}}}}}`})
	server.WriteFile(t, "pipes.json", `{"pipes":[
		{"name":"late","sql":"SELECT origin, count() AS n, max(delay) AS worst FROM flights WHERE at >= {{since}} GROUP BY origin LIMIT {{limit:10}}",
		 "parameters":[{"name":"since","type":"datetime","required":true},{"name":"limit","type":"number"}],"allowed_roles":["viewer"]},
		{"name":"secrets","sql":"SELECT secret FROM flights"}]}`)
	server.AwaitReady(t)
	require.Equal(t, 200, server.Ops(t, "POST", "/v1/ops/settings/reload", "").Status)
	dir := t.TempDir()
	codegen := func(wants bool, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(binaries.Dir(t), "wavehouse"), append([]string{"codegen"}, args...)...)
		cmd.Env = []string{"WH_AUTH_OPERATOR_KEY=" + harness.OperatorKey}
		out, err := cmd.CombinedOutput()
		require.Equal(t, wants, err == nil, "%v: %s", args, out)
		return string(out)
	}
	types := filepath.Join(dir, "types.ts")
	fromServer := []string{"ts", "--role", "viewer", "--server", server.URL, "--out", types}
	codegen(false, append(fromServer, "--check")...)
	codegen(true, fromServer...)
	codegen(true, append(fromServer, "--check")...)
	fromFiles := []string{"ts", "--role", "viewer", "--dir", server.SettingsDir, "--against", strings.TrimPrefix(strings.TrimSuffix(clickhouse.URL(), "/"), "http://")}
	codegen(true, append(fromFiles, "--out", types, "--check")...)
	require.Contains(t, codegen(false, "ts", "--role", "nobody", "--server", server.URL), "nothing")
	require.Contains(t, codegen(false, "ts", "--server", server.URL), "--role")

	sdk := filepath.Dir(buildSDK(t))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tsconfig.json"), []byte(`{"compilerOptions":{"noEmit":true,"strict":true,"target":"es2022",
		"noUncheckedIndexedAccess":true,"module":"nodenext","moduleResolution":"nodenext","types":[]},"include":["*.ts"]}`), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type":"module"}`), 0o600))
	// One run of the compiler reads them all: what each program has of errors.
	header := `import { avg, count, WaveHouse } from "` + filepath.Join(sdk, "dist/esm/index.js") + `";
import type { Database } from "./types.js";
declare const wh: WaveHouse<Database>;
`
	programs := map[string]string{"right": `
const rows = await wh.from("flights").select("origin", "delay", "bytes", "state", "tags", "extra", "place", "day", count(), avg("delay"));
for (const row of rows) {
  const origin: string = row.origin, state: "on" | "off" = row.state, tags: string[] = row.tags, day: string = row.day;
  const delay: number | null = row.delay, bytes: number | bigint = row.bytes, lat: number | null = row.place.lat;
  const extra: number | bigint | null | undefined = row.extra["x"], n: number = row.count;
  void [origin, state, tags, day, delay, bytes, lat, extra, n];
}
await wh.insert("flights", { id: "x", bytes: 1n, share: 0.5, price: "1.5", at: new Date(), state: "on", tags: [], extra: { a: 1 } });
const late = await wh.pipe("late", { since: "2026-01-01T00:00:00Z" });
const worst: number | null | undefined = late[0]?.worst;
void worst;`}
	wrong := map[string]string{
		"a column that the role may not read":   `wh.from("flights").select("secret");`,
		"a table that it may not read":          `wh.from("hidden");`,
		"a column that it may not insert":       `wh.insert("flights", { id: "x", bytes: 1, share: 1, price: 1, at: "", state: "on", tags: [], extra: {}, secret: "" });`,
		"a column that ClickHouse computes":     `wh.insert("flights", { id: "x", bytes: 1, share: 1, price: 1, at: "", state: "on", tags: [], extra: {}, day: "" });`,
		"a column that is missing":              `wh.insert("flights", { bytes: 1, share: 1, price: 1, at: "", state: "on", tags: [], extra: {} });`,
		"a name that the Enum does not have":    `wh.from("flights").where("state", "eq", "broken");`,
		"a pipe that it may not run":            `wh.pipe("secrets", {});`,
		"a pipe without its required parameter": `wh.pipe("late", {});`,
	}
	names := map[string]string{}
	for what, program := range wrong {
		name := fmt.Sprintf("wrong%d", len(names))
		names[name], programs[name] = what, program
	}
	for name, program := range programs {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".ts"), []byte(header+program+"\nexport {};\n"), 0o600))
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(sdk, "node_modules/.bin/tsc"), "-p", dir)
	cmd.Dir = dir
	found, _ := cmd.CombinedOutput() // it fails: most of the programs are wrong
	require.NotContains(t, string(found), "right.ts")
	for name, what := range names {
		require.Contains(t, string(found), name+".ts(", what)
	}

	goFile := filepath.Join(dir, "events", "events.go")
	codegen(true, "go", "--role", "viewer", "--server", server.URL, "--package", "events", "--out", goFile)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "events", "go.mod"), []byte("module events\n\ngo 1.24\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "events", "use_test.go"), []byte(`package events

import ("encoding/json"; "testing"; "time")

func TestUse(t *testing.T) {
	t.Parallel()
	var row FlightsRow
	text := `+"`"+`{"id":"a","origin":"FRA","delay":null,"bytes":18446744073709551615,"share":0.5,"price":1.5,"at":"2026-01-01T00:00:00.000Z","state":"on","tags":["x"],"extra":{"a":null},"place":{"lat":1,"lon":2},"seen":"2026-01-01T00:00:00Z","day":"2026-01-01"}`+"`"+`
	if err := json.Unmarshal([]byte(text), &row); err != nil {
		t.Fatal(err)
	}
	if row.Bytes != 18446744073709551615 || row.Delay != nil || !row.At.Equal(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Fatal(row)
	}
	_, _ = json.Marshal(FlightsInsert{ID: "a"})
	_ = LateRow{N: 1}
}
`), 0o600))
	test := exec.CommandContext(t.Context(), "go", "test", "./...")
	test.Dir = filepath.Join(dir, "events")
	out, err := test.CombinedOutput()
	require.NoError(t, err, string(out))

	// A column that came a moment ago, and one that the role may not read any longer:
	// the check says so, and a page that was made before is told why it has no rows.
	clickhouse.Must(t, "ALTER TABLE flights ADD COLUMN gate String DEFAULT ''")
	require.Contains(t, codegen(false, append(fromServer, "--check")...), `\"gate\"`)
	policies := func(denied string) {
		server.WriteFile(t, "policies.json", `{"default_role":"viewer","tables":{"flights":{"viewer":{"select":{"deny_columns":["secret"`+denied+`]},"insert":{}}}}}`)
		require.Equal(t, 200, server.Ops(t, "POST", "/v1/ops/settings/reload", "").Status)
	}
	policies("")
	page := harness.StartProcess(t, dir, nil, "node", "--input-type=module", "-e", `
import { WaveHouse } from "`+filepath.Join(sdk, "dist/esm/index.js")+`";
const wh = new WaveHouse({ url: "`+server.URL+`" });
for await (const { status, error } of wh.live(wh.from("flights").select("id", "delay"), { refreshMs: 10 })) console.log(status, error?.code);
`)
	says := func(text string) func() error {
		return func() error {
			if !strings.Contains(page.Output(), text) {
				return fmt.Errorf("no %q in %q", text, page.Output())
			}
			return nil
		}
	}
	harness.Eventually(t, time.Minute, says("live"))
	codegen(true, fromServer...)
	policies(`,"delay"`)
	require.Equal(t, 200, server.Ingest(t, "flights", `{"id":"4b1e9d2c-6c1f-4f0e-8f43-0b1f5c8d2a11",
		"origin":"FRA","bytes":1,"share":0.5,"price":1,"at":"2026-01-01T00:00:00Z","state":"on","tags":[],"extra":{},"place":{"lat":1,"lon":2},"secret":""}`).Status)
	harness.Eventually(t, time.Minute, says("closed query.column_not_allowed"))
	require.Contains(t, codegen(false, append(fromServer, "--check")...), `\"delay\"`)
	codegen(true, fromServer...)
	text, err := os.ReadFile(types)
	require.NoError(t, err)
	require.NotContains(t, string(text), `"delay": `)
}
