package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clickhouse/clickhousetest"
	"github.com/wavehouse/wavehouse/tests/harness"
)

// sdkPage is a page of one origin that uses the client against a server of
// another, through a proxy that can fail.
type sdkPage struct {
	*page
	server *harness.Server
	proxy  *clickhousetest.TCPProxy
	click  *harness.ClickHouse
	// said is what the page is told when it asks.
	said atomic.Value
}

func TestTheClientInABrowser(t *testing.T) {
	t.Parallel()
	chromium := tool(t, "chromium", "chromium-browser", "google-chrome")
	tool(t, "npm")
	sdk := buildSDK(t)
	clickhouse := harness.StartClickHouse(t, binaries.Dir(t))
	for i, c := range []struct {
		name  string
		scene func(*testing.T, *sdkPage, func(scene string))
	}{
		{"a stream that is cut before its first row loses none", cutBeforeTheFirstRow},
		{"a page that is left sends what its batcher holds", leaveWithRows},
		{"what waits outlives the page and is stored once", keepOverPages},
		{"two tabs share one stream, and the second takes over", shareAStream},
	} {
		database := fmt.Sprintf("browser_%d", i)
		clickhouse.Must(t, "CREATE DATABASE "+database)
		clickhouse.Must(t, "CREATE TABLE "+database+".pages (id String) ENGINE = MergeTree ORDER BY id")
		t.Run(c.name, func(t *testing.T) {
			p := &sdkPage{click: clickhouse}
			p.said.Store("")
			p.page = newPage(t, func() string { return p.said.Load().(string) })
			p.sdk = sdk
			p.server = harness.StartServer(t, harness.ServerOptions{Bin: binaries.Dir(t), ClickHouse: clickhouse, Config: map[string]string{
				"clickhouse": fmt.Sprintf(`{"addr":%q,"http_port":%d,"database":%q}`, clickhouse.Addr(), clickhouse.HTTPPort, database),
				"ingest":     `{"flush":{"max_wait":"50ms"}}`, "cors": fmt.Sprintf(`{"allowed_origins":[%q]}`, p.site.URL),
			}})
			p.server.AwaitReady(t)
			p.proxy = clickhousetest.NewTCPProxy(t, strings.TrimPrefix(p.server.URL, "http://"))
			c.scene(t, p, func(scene string) {
				browse(t, chromium, p.site.URL+"/sdk.html?"+url.Values{"do": {scene}, "url": {"http://" + p.proxy.Addr()}}.Encode())
			})
		})
	}
}

// await waits for a report.
func (p *sdkPage) await(t *testing.T, kind, data string) {
	t.Helper()
	harness.Eventually(t, 90*time.Second, func() error {
		if p.count("failed", "") > 0 || p.count(kind, data) == 0 {
			return fmt.Errorf("no %s %q: %+v", kind, data, p.all())
		}
		return nil
	})
}

// stored waits until exactly these ids are in the table.
func (p *sdkPage) stored(t *testing.T, ids ...string) {
	t.Helper()
	// A browser may have to start first.
	harness.Eventually(t, 90*time.Second, func() error {
		answer := p.server.Query(t, "pages", `{"columns":["id"],"order_by":[{"column":"id"}]}`)
		var rows []struct{ ID string }
		answer.JSON(t, &rows)
		var got []string
		for _, row := range rows {
			got = append(got, row.ID)
		}
		if fmt.Sprint(got) != fmt.Sprint(ids) {
			return fmt.Errorf("stored %v of %v; reports %+v", got, ids, p.all())
		}
		return nil
	})
}

func cutBeforeTheFirstRow(t *testing.T, p *sdkPage, open func(string)) {
	open("stream")
	p.await(t, "again", "0") // a question with If-None-Match passes the browser's preflight
	p.await(t, "begun", "")
	harness.Eventually(t, time.Minute, func() error { return p.subscribers(t, 1) })
	p.proxy.Refuse()
	require.Equal(t, http.StatusOK, p.server.Ingest(t, "pages", `{"id":"while-away"}`).Status)
	p.proxy.Pass(t)
	p.await(t, "row", "while-away")
	require.Equal(t, http.StatusOK, p.server.Ingest(t, "pages", `{"id":"after"}`).Status)
	p.await(t, "row", "after")
	require.Equal(t, 2, p.count("row", ""))
	require.Zero(t, p.count("gap", ""))
}

// subscribers says whether the server has so many streams.
func (p *sdkPage) subscribers(t *testing.T, want int) error {
	t.Helper()
	const name = `wavehouse_stream_subscribers{tenant="0"} `
	for line := range strings.Lines(p.server.Do(t, http.MethodGet, "/metrics", "").Body) {
		if value, ok := strings.CutPrefix(line, name); ok && strings.TrimSpace(value) == fmt.Sprint(want) {
			return nil
		}
	}
	return fmt.Errorf("the server has not %d streams; reports %+v", want, p.all())
}

func leaveWithRows(t *testing.T, p *sdkPage, open func(string)) {
	open("leave")
	p.stored(t, "left-1", "left-2")
}

func keepOverPages(t *testing.T, p *sdkPage, open func(string)) {
	p.proxy.Refuse()
	open("offline")
	p.await(t, "kept", "2")
	p.said.Store("leave")
	p.await(t, "found", "2")
	p.proxy.Pass(t)
	p.await(t, "sent", "0")
	p.stored(t, "kept-1", "kept-2")
	require.Zero(t, p.count("drop", ""))
}

func shareAStream(t *testing.T, p *sdkPage, open func(string)) {
	require.Equal(t, http.StatusOK, p.server.Ingest(t, "pages", `{"id":"1"}`).Status)
	p.stored(t, "1")
	open("tabs")
	p.await(t, "alive", "1")
	p.await(t, "blive", "1")
	harness.Eventually(t, time.Minute, func() error { return p.subscribers(t, 1) })
	require.Equal(t, http.StatusOK, p.server.Ingest(t, "pages", `{"id":"2"}`).Status)
	p.await(t, "alive", "1 2")
	p.await(t, "blive", "1 2")
	p.said.Store("close")
	p.await(t, "closed", "")
	require.Equal(t, http.StatusOK, p.server.Ingest(t, "pages", `{"id":"3"}`).Status)
	p.await(t, "blive", "1 2 3")
	harness.Eventually(t, time.Minute, func() error { return p.subscribers(t, 1) })
}
