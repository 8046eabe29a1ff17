package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/stream/streamtest"
	"github.com/wavehouse/wavehouse/tests/harness"
)

const streamSecret = "a-secret-of-the-stream-tests-0123456789"

// follower is a client of one table's stream that comes back with the last id
// whenever it is cut off, and counts what it sees.
type follower struct {
	url    func() string
	client *http.Client
	last   string
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	times map[string]int
	gaps  int
	comes int // connections on which it knows where it is
}

func follow(t *testing.T, url func() string, client *http.Client, from string) *follower {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f := &follower{url: url, client: client, last: from, cancel: cancel, done: make(chan struct{}), times: map[string]int{}}
	go func() {
		defer close(f.done)
		for ctx.Err() == nil {
			f.once(ctx)
			time.Sleep(20 * time.Millisecond)
		}
	}()
	t.Cleanup(f.stop)
	return f
}

func (f *follower) stop() {
	f.cancel()
	<-f.done
}

// once reads one connection to its end.
func (f *follower) once(ctx context.Context) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url(), nil)
	if err != nil {
		return
	}
	stream, err := streamtest.Open(f.client, request, f.last)
	if err != nil {
		return
	}
	defer stream.Close()
	for opened := false; ; opened = true {
		frame, err := stream.Next()
		if err != nil {
			return
		}
		f.last = stream.LastID()
		f.note(frame, !opened)
	}
}

// note counts what came; the first of a connection says where it stands.
func (f *follower) note(frame streamtest.Frame, opens bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if opens {
		f.comes++
	}
	if frame.Event == "gap" {
		f.gaps++
	}
	row, err := frame.Row()
	if err != nil {
		return
	}
	var cells struct{ ID string }
	if json.Unmarshal(row.Row, &cells) == nil {
		f.times[cells.ID]++
	}
}

func (f *follower) accepted() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.comes
}

// account says what is missing of want, and what came more than once.
func (f *follower) account(want []string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gaps > 0 {
		return fmt.Errorf("%d gaps", f.gaps)
	}
	missing, repeated := 0, 0
	for _, id := range want {
		if f.times[id] == 0 {
			missing++
		}
	}
	for _, n := range f.times {
		if n > 1 {
			repeated++
		}
	}
	if missing+repeated > 0 {
		return fmt.Errorf("%d of %d rows missing, %d repeated", missing, len(want), repeated)
	}
	return nil
}

// h2c speaks cleartext HTTP/2 alone.
func h2c() *http.Client {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Client{Transport: &http.Transport{Protocols: protocols}}
}

// Rows that were answered reach every reader exactly once, over kills of the
// server and clean restarts, whatever the protocol.
func TestStreamOverKillsAndRestarts(t *testing.T) {
	t.Parallel()
	clickhouse := harness.StartClickHouse(t, binaries.Dir(t))
	harness.CreateLoadTable(t, clickhouse, "load")
	server := startMoving(t, clickhouse, map[string]string{"ingest": `{"flush":{"max_wait":"300ms"}}`})
	server.AwaitReady(t)
	url := func() string { return server.current() + "/v1/stream?table=load" }
	readers := make([]*follower, 6)
	for i := range readers {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		if i%2 == 1 {
			client = h2c()
		}
		readers[i] = follow(t, url, client, "")
	}
	everyone := func(times int) {
		harness.Eventually(t, time.Minute, func() error {
			for i, f := range readers {
				if n := f.accepted(); n < times {
					return fmt.Errorf("reader %d connected %d times", i, n)
				}
			}
			return nil
		})
	}
	everyone(1)
	load := harness.StartLoad(server.current, "load", 4)
	for round := range 6 {
		before := load.Answered()
		harness.Eventually(t, time.Minute, func() error {
			if load.Answered() < before+300 {
				return fmt.Errorf("round %d: %d rows answered", round, load.Answered()-before)
			}
			return nil
		})
		if round%3 == 2 {
			server.Signal(syscall.SIGTERM)
			require.Zero(t, server.Wait(t, time.Minute))
		} else {
			server.Kill()
		}
		server.restart(t)
		everyone(round + 2)
	}
	load.Stop()
	for i, f := range readers {
		harness.Eventually(t, time.Minute, func() error {
			if err := f.account(load.AnsweredIDs()); err != nil {
				return fmt.Errorf("reader %d: %w", i, err)
			}
			return nil
		})
	}
}

// joined is one query with its position.
type joined struct {
	ids      []string
	position string
	exact    bool
}

func queryJoined(t *testing.T, url string) joined {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/query?table=load&position=1", strings.NewReader(`{"columns":["id"],"limit":10000000}`))
	require.NoError(t, err)
	response, err := harness.Client.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	var rows []struct{ ID string }
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.NoError(t, json.NewDecoder(response.Body).Decode(&rows))
	j := joined{position: response.Header.Get("X-Stream-Position"), exact: response.Header.Get("X-Stream-Join") == "exact"}
	require.Contains(t, []string{"exact", "overlap"}, response.Header.Get("X-Stream-Join"))
	require.Equal(t, "BYPASS", response.Header.Get("X-Cache"))
	for _, row := range rows {
		j.ids = append(j.ids, row.ID)
	}
	return j
}

// check holds an answer and the stream that follows it to the promise: no row
// is in neither; after an exact join none is in both.
func (j joined) check(t *testing.T, f *follower, answered []string) error {
	t.Helper()
	inAnswer := map[string]bool{}
	for _, id := range j.ids {
		inAnswer[id] = true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	missing, both := 0, 0
	for _, id := range answered {
		if !inAnswer[id] && f.times[id] == 0 {
			missing++
		}
	}
	for id, n := range f.times {
		if n > 1 || (inAnswer[id] && j.exact) {
			both++
		}
	}
	if missing+both+f.gaps > 0 {
		return fmt.Errorf("join %v: of %d rows %d in neither, %d in both or twice, %d gaps", j.exact, len(answered), missing, both, f.gaps)
	}
	return nil
}

func TestAQueryAndTheStreamThatFollowsItJoin(t *testing.T) {
	t.Parallel()
	clickhouse := harness.StartClickHouse(t, binaries.Dir(t))
	harness.CreateLoadTable(t, clickhouse, "load")
	server := startMoving(t, clickhouse, map[string]string{"ingest": `{"flush":{"max_wait":"150ms"}}`, "query": `{"default_max_rows":10000000}`})
	server.AwaitReady(t)
	url := func() string { return server.current() + "/v1/stream?table=load" }
	var joins []joined
	var followers []*follower
	join := func() {
		j := queryJoined(t, server.current())
		joins = append(joins, j)
		followers = append(followers, follow(t, url, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, j.position))
	}
	join() // of an empty table
	load := harness.StartLoad(server.current, "load", 4)
	for range 8 {
		before := load.Answered()
		harness.Eventually(t, time.Minute, func() error {
			if load.Answered() < before+150 {
				return fmt.Errorf("%d rows answered", load.Answered()-before)
			}
			return nil
		})
		join()
	}
	server.Kill()
	server.restart(t)
	server.AwaitReady(t)
	join() // while rows of the former process wait to be written again
	harness.Eventually(t, time.Minute, func() error {
		if load.Answered() < 2000 {
			return fmt.Errorf("%d rows answered", load.Answered())
		}
		return nil
	})
	load.Stop()
	load.Account(t, clickhouse, time.Minute)
	// Nothing is written any more, once the server has heard that its last INSERT
	// is done and what nobody was answered for is written too.
	harness.Eventually(t, 60*time.Second, func() error {
		if !queryJoined(t, server.current()).exact {
			return fmt.Errorf("the join is not exact")
		}
		return nil
	})
	join()
	require.True(t, joins[len(joins)-1].exact)
	exact := 0
	for i, j := range joins {
		harness.Eventually(t, time.Minute, func() error { return j.check(t, followers[i], load.AnsweredIDs()) })
		if j.exact {
			exact++
		}
	}
	t.Logf("%d of %d joins were exact", exact, len(joins))
	refused := server.Do(t, http.MethodPost, "/v1/query?table=load&position=maybe", `{"columns":["id"]}`)
	require.Equal(t, http.StatusBadRequest, refused.Status)
}

func streamToken(t *testing.T, role string, life time.Duration) string {
	t.Helper()
	text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"role": role, "exp": time.Now().Add(life).Unix()}).SignedString([]byte(streamSecret))
	require.NoError(t, err)
	return text
}

// startStreaming runs a server on a port that stays the same, for a page.
func startStreaming(t *testing.T, origin, policies string) *harness.Server {
	t.Helper()
	clickhouse := harness.StartClickHouse(t, binaries.Dir(t))
	clickhouse.Must(t, "CREATE TABLE pages (id String, secret String DEFAULT '') ENGINE = MergeTree ORDER BY id")
	port := harness.FreePort(t)
	server := harness.StartServer(t, harness.ServerOptions{
		Bin: binaries.Dir(t), ClickHouse: clickhouse, Policies: policies,
		Config: map[string]string{"cors": `{"allowed_origins":["` + origin + `"]}`, "stream": `{"keepalive_interval":1,"keepalive_buckets":1}`},
		Env:    []string{"WH_SERVER_PORT=" + strconv.Itoa(port), "WH_AUTH_JWT_SECRET=" + streamSecret},
	})
	server.AwaitReady(t)
	return server
}

const viewerAndWriter = `{"default_role":"","tables":{"pages":{"viewer":{"select":{}},"writer":{"insert":{}}}}}`

// insert posts one row as the writer.
func insert(t *testing.T, s *harness.Server, id string) {
	t.Helper()
	a := s.Do(t, http.MethodPost, "/v1/ingest?table=pages", `{"id":"`+id+`","secret":"s3cret"}`,
		"Content-Type", "application/json", "Authorization", "Bearer "+streamToken(t, "writer", time.Minute))
	require.Equal(t, http.StatusOK, a.Status, a.Body)
}

// awaitRow waits until the page has seen the row.
func (p *page) awaitRow(t *testing.T, id string) {
	t.Helper()
	harness.Eventually(t, 60*time.Second, func() error {
		ids := p.rowIDs(t)
		if len(ids) == 0 || ids[len(ids)-1] != id {
			return fmt.Errorf("no %s after %v; reports %+v", id, ids, p.all())
		}
		return nil
	})
}

// A page stays open in a browser over restarts, a policy edit and the end
// of its token, sees every row once, and no row after its token or its grant.
// Straight to the server the browser itself comes back with the last id; behind
// a proxy, which answers 502 meanwhile, it gives up and the page does.
func TestAPageLeftOpen(t *testing.T) {
	t.Parallel()
	t.Run("straight", func(t *testing.T) {
		t.Parallel()
		leaveAPageOpen(t, func(addr string) string { return "http://" + addr })
	})
	t.Run("behind nginx", func(t *testing.T) {
		t.Parallel()
		tool(t, "nginx", "/usr/sbin/nginx")
		leaveAPageOpen(t, func(addr string) string { return behindNginx(t, addr) })
	})
}

func leaveAPageOpen(t *testing.T, front func(addr string) string) {
	t.Helper()
	chromium := tool(t, "chromium", "chromium-browser", "google-chrome")
	life := time.Hour
	var lock sync.Mutex
	p := newPage(t, func() string {
		lock.Lock()
		defer lock.Unlock()
		return streamToken(t, "viewer", life)
	})
	server := startStreaming(t, p.site.URL, viewerAndWriter)
	stream := front(strings.TrimPrefix(server.URL, "http://")) + "/v1/stream?table=pages"
	// It has expired, but counts for the rest of the 30 s of leeway.
	lock.Lock()
	life = -15 * time.Second
	lock.Unlock()
	p.open(t, chromium, stream)
	harness.Eventually(t, 60*time.Second, func() error {
		if p.count("open", "") == 0 {
			return fmt.Errorf("the page has no stream: %+v", p.all())
		}
		return nil
	})
	var want []string
	send := func(id string) {
		insert(t, server, id)
		want = append(want, id)
	}
	send("first")
	p.awaitRow(t, "first")

	// The token runs out; the page gets another.
	lock.Lock()
	life = time.Hour
	lock.Unlock()
	harness.Eventually(t, 60*time.Second, func() error {
		if p.count("end", "token_expired") == 0 {
			return fmt.Errorf("the token has not ended the stream: %+v", p.all())
		}
		return nil
	})
	send("renewed")
	p.awaitRow(t, "renewed")

	// Restarts, one clean and one not, with rows while the page is away.
	for i, end := range []func(){
		func() { server.Signal(syscall.SIGTERM); server.Wait(t, time.Minute) },
		func() { server.Kill() },
	} {
		send(fmt.Sprintf("before-%d", i))
		end()
		server.Start(t)
		server.AwaitReady(t)
		send(fmt.Sprintf("after-%d", i))
		p.awaitRow(t, fmt.Sprintf("after-%d", i))
	}

	// A column is taken away, then the table, then it is given back.
	edit := func(policies string) {
		server.WriteFile(t, "policies.json", policies)
		a := server.Ops(t, http.MethodPost, "/v1/ops/settings/reload", "")
		require.Equal(t, http.StatusOK, a.Status, a.Body)
	}
	edit(strings.Replace(viewerAndWriter, `{"select":{}}`, `{"select":{"deny_columns":["secret"]}}`, 1))
	send("projected")
	p.awaitRow(t, "projected")
	reports := p.all()
	assert.NotContains(t, reports[len(reports)-1].Data, "s3cret")
	edit(strings.Replace(viewerAndWriter, `"viewer":{"select":{}},`, "", 1))
	send("withheld")
	harness.Eventually(t, time.Minute, func() error {
		if p.count("end", "access_revoked") == 0 {
			return fmt.Errorf("the page still streams: %+v", p.all())
		}
		return nil
	})
	require.NotContains(t, p.rowIDs(t), "withheld")
	edit(viewerAndWriter)
	send("again")
	p.awaitRow(t, "again")
	// What it may see again it gets, from where it was: each row once.
	assert.Equal(t, want, p.rowIDs(t))
	assert.Zero(t, p.count("gap", ""))
}

// behindNginx puts Debian's nginx in front, with the buffering it comes with.
func behindNginx(t *testing.T, upstream string) string {
	t.Helper()
	nginx := tool(t, "nginx", "/usr/sbin/nginx")
	dir, port := t.TempDir(), harness.FreePort(t)
	user := ""
	if os.Getuid() == 0 {
		user = "user root;"
	}
	config := fmt.Sprintf(`%s daemon off; worker_processes 1; pid %[2]s/pid; error_log %[2]s/error.log;
events { worker_connections 512; }
http {
  access_log off;
  client_body_temp_path %[2]s/a; proxy_temp_path %[2]s/b; fastcgi_temp_path %[2]s/c; uwsgi_temp_path %[2]s/d; scgi_temp_path %[2]s/e;
  gzip on;
  server { listen 127.0.0.1:%[3]d; location / { proxy_pass http://%[4]s; } }
}`, user, dir, port, upstream)
	file := filepath.Join(dir, "nginx.conf")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	harness.StartProcess(t, dir, nil, nginx, "-p", dir, "-c", file, "-e", filepath.Join(dir, "error.log"))
	address := "127.0.0.1:" + strconv.Itoa(port)
	harness.Eventually(t, time.Minute, func() error {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	return "http://" + address
}

func TestStreamBehindNginx(t *testing.T) {
	t.Parallel()
	tool(t, "nginx", "/usr/sbin/nginx")
	server := startStreaming(t, "http://127.0.0.1:1", viewerAndWriter)
	front := behindNginx(t, strings.TrimPrefix(server.URL, "http://"))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, front+"/v1/stream?table=pages", nil)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+streamToken(t, "viewer", time.Minute))
	request.Header.Set("Accept-Encoding", "gzip")
	stream, err := streamtest.Open(harness.Client, request, "")
	require.NoError(t, err)
	defer stream.Close()
	require.Empty(t, stream.Response.Header.Get("Content-Encoding"))
	opening, err := stream.Next()
	require.NoError(t, err)
	require.Equal(t, []string{"connected"}, opening.Comments)
	// Each row comes while the stream stays open: far fewer bytes than any
	// buffer of the proxy holds.
	for i := range 3 {
		insert(t, server, fmt.Sprintf("n%d", i))
		frame, err := stream.NextEvent()
		require.NoError(t, err)
		require.Contains(t, frame.Data, fmt.Sprintf(`"id":"n%d"`, i))
	}
}
