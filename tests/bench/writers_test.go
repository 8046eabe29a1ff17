package bench

import (
	"fmt"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

// slowRate is what a connection through a slow valve lets pass, in bytes a second.
const slowRate = 512 << 10

// moreWriters lets one, two and three processes drain the same backlog of eight
// shards: into a ClickHouse that takes as much of a connection as it is allowed to,
// and as fast as this one goes.
func moreWriters(t *testing.T) []line {
	s := newService(t, 1)
	first := s.process(t, "first", "ingest", nil)
	tables := s.tablePerShard(t)
	first.Signal(syscall.SIGTERM)
	require.Zero(t, first.Wait(t, time.Minute), first.Output())
	body := newRowSource(1).body(1000)
	var lines []line
	for _, c := range []struct {
		what                string
		bodies, rate, flush int
	}{{"a ClickHouse that is slow by design", 10, slowRate, 1000}, {"this ClickHouse", 100, 0, 50_000}} {
		var alone float64
		for writers := 1; writers <= 3; writers++ {
			rate := s.drain(t, tables, body, c.bodies, writers, c.rate, c.flush)
			if writers == 1 {
				alone = rate
				lines = append(lines, line{fmt.Sprintf("a backlog of 8 shards into %s, 1 writer, rows/s", c.what), fmt.Sprintf("%.0f", rate), "", ""})
				continue
			}
			lines = append(lines, line{fmt.Sprintf("— %d writers", writers), fmt.Sprintf("%.0f", rate),
				fmt.Sprintf("%.0f linear", alone*float64(writers)), fmt.Sprintf("%.2f", rate/alone/float64(writers))})
		}
	}
	return lines
}

// drain leaves bodies for each table while nobody writes, and returns how many rows
// a second so many writers write, each with two connections of a rate, in INSERTs of so many rows.
func (s *service) drain(t *testing.T, tables []string, body string, bodies, writers, rate, flush int) float64 {
	t.Helper()
	v := newValve(t, net.JoinHostPort("127.0.0.1", fmt.Sprint(s.clickhouse.HTTPPort)), rate)
	var all []*harness.Server
	var names []string
	for n := range writers {
		name := fmt.Sprint("writer-", n)
		all, names = append(all, s.process(t, name, "ingest", map[string]string{
			"clickhouse": fmt.Sprintf(`{"addr":"127.0.0.1","http_port":%d,"max_open_conns":2,"query_timeout":300}`, v.port),
			"ingest":     fmt.Sprintf(`{"flush":{"max_rows":%d}}`, flush),
		})), append(names, name)
	}
	s.awaitShards(t, names...)
	for _, table := range tables {
		s.clickhouse.Must(t, "TRUNCATE TABLE "+table)
	}
	var wait sync.WaitGroup
	for _, table := range tables {
		wait.Go(func() {
			for range bodies {
				if err := postOne(http.DefaultClient, s.api.URL+"/v1/ingest?table="+table, "application/x-ndjson", body); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	start, want := time.Now(), bodies*1000*len(tables)
	v.open()
	s.awaitRows(t, want)
	took := time.Since(start)
	for _, p := range all {
		p.Signal(syscall.SIGTERM)
		require.Zero(t, p.Wait(t, time.Minute), p.Output())
	}
	return float64(want) / took.Seconds()
}

// valve leads to a server. Nothing passes until it is open, and then so many bytes a
// second over each connection, 0 for any number.
type valve struct {
	to     string
	rate   int
	port   int
	opened chan struct{}
	open   func()
}

func newValve(t *testing.T, to string, rate int) *valve {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	v := &valve{to: to, rate: rate, port: l.Addr().(*net.TCPAddr).Port, opened: make(chan struct{})}
	v.open = sync.OnceFunc(func() { close(v.opened) })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			go v.join(near)
		}
	}()
	return v
}

// join carries between both ends until one closes.
func (v *valve) join(near net.Conn) {
	far, err := net.Dial("tcp", v.to)
	if err != nil {
		_ = near.Close()
		return
	}
	go func() {
		carry(near, far, 0)
		_ = near.Close()
	}()
	<-v.opened
	carry(far, near, v.rate)
	_ = far.Close()
}

func carry(to, from net.Conn, rate int) {
	buf := make([]byte, 8<<10)
	for {
		n, err := from.Read(buf)
		if _, failed := to.Write(buf[:n]); failed != nil || err != nil {
			return
		}
		if rate > 0 {
			time.Sleep(time.Duration(n) * time.Second / time.Duration(rate))
		}
	}
}
