package nats_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/natstest"
	"github.com/wavehouse/wavehouse/internal/notice"
	natsnotice "github.com/wavehouse/wavehouse/internal/notice/nats"
	"github.com/wavehouse/wavehouse/internal/notice/noticetest"
)

// beat is short, so that what is missing is soon found out.
const beat = 50 * time.Millisecond

func bus(nc *nats.Conn) *natsnotice.Bus { return beating(nc, beat) }

func beating(nc *nats.Conn, every time.Duration) *natsnotice.Bus {
	return natsnotice.New(natsnotice.Options{Conn: nc, Prefix: "wh.notice.", Logger: slog.New(slog.DiscardHandler), Beat: every})
}

// Three processes, each at another server of a cluster. No pause of a busy machine
// is a silence.
func TestConformance(t *testing.T) {
	t.Parallel()
	cluster := natstest.Start(t, natstest.Options{Nodes: 3})
	noticetest.Run(t, func(t *testing.T) *noticetest.Subject {
		var buses []notice.Bus
		for range 3 {
			buses = append(buses, beating(cluster.Connect(t), 20*beat))
		}
		return &noticetest.Subject{Buses: buses, Reconnect: func() {
			for _, n := range cluster.Nodes {
				n.Kill()
			}
			for _, n := range cluster.Nodes {
				n.Start(t)
			}
		}}
	})
}

// ear keeps what a bus hears.
type ear struct {
	mu    sync.Mutex
	heard []notice.Notice
}

func (e *ear) hear(all []notice.Notice) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = append(e.heard, all...)
}

func (e *ear) take() []notice.Notice {
	e.mu.Lock()
	defer e.mu.Unlock()
	heard := e.heard
	e.heard = nil
	return heard
}

func (e *ear) awaitLost(t *testing.T, why string) {
	t.Helper()
	require.Eventually(t, func() bool { return slices.Contains(e.take(), notice.Notice(notice.Lost{})) }, 30*time.Second, 5*time.Millisecond, why)
}

// wire is what a listener hears and a client that speaks for another process.
type wire struct {
	*ear
	nc *nats.Conn
	t  *testing.T
}

func listenTo(t *testing.T, every time.Duration) *wire {
	server := natstest.Start(t, natstest.Options{})
	b, w := beating(server.Connect(t), every), &wire{ear: &ear{}, nc: server.Connect(t), t: t}
	b.Listen(w.hear)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	t.Cleanup(func() { cancel(); assert.NoError(t, <-done) })
	// It hears from when it subscribed.
	require.Eventually(t, func() bool {
		w.say(`{"from":"first","n":1,"statement":{"Tenant":"birch"}}`)
		w.say(`{"from":"first","n":1,"bye":true}`)
		return len(w.take()) > 0
	}, 30*time.Second, 5*time.Millisecond)
	w.settle()
	return w
}

func (w *wire) say(text string) { require.NoError(w.t, w.nc.Publish("wh.notice.told", []byte(text))) }

// settle returns once what was said is heard.
func (w *wire) settle() []notice.Notice {
	w.t.Helper()
	w.say(`{"from":"settle","n":1,"process":{"instance":"settle"}}`)
	w.say(`{"from":"settle","n":1,"bye":true}`)
	var heard []notice.Notice
	require.Eventually(w.t, func() bool {
		heard = append(heard, w.take()...)
		return slices.ContainsFunc(heard, func(n notice.Notice) bool { p, ok := n.(notice.Process); return ok && p.Instance == "settle" })
	}, 30*time.Second, time.Millisecond)
	return slices.DeleteFunc(slices.Clip(heard), func(n notice.Notice) bool { p, ok := n.(notice.Process); return ok && p.Instance == "settle" })
}

// A notice that did not arrive is found out by the next one, or by the next sign of
// life.
func TestWhatIsMissingIsFoundOut(t *testing.T) {
	t.Parallel()
	w := listenTo(t, time.Minute)
	statement := notice.Statement{Tenant: "birch"}
	for _, c := range []struct {
		name, says string
		want       []notice.Notice
	}{
		{"the first", `{"from":"a","n":1,"statement":{"Tenant":"birch"}}`, []notice.Notice{statement}},
		{"a sign of life", `{"from":"a","n":1}`, nil},
		{"the next", `{"from":"a","n":2,"statement":{"Tenant":"birch"}}`, []notice.Notice{statement}},
		{"one is skipped", `{"from":"a","n":4,"statement":{"Tenant":"birch"}}`, []notice.Notice{notice.Lost{}, statement}},
		{"a sign of life that counts more", `{"from":"a","n":5}`, []notice.Notice{notice.Lost{}}},
		{"and again", `{"from":"a","n":5}`, nil},
		{"the end", `{"from":"a","n":5,"bye":true}`, nil},
		{"a stranger who told before", `{"from":"b","n":2,"statement":{"Tenant":"birch"}}`, []notice.Notice{notice.Lost{}, statement}},
		{"its end", `{"from":"b","n":2,"bye":true}`, nil},
		{"what nobody can read", `{"from":`, []notice.Notice{notice.Lost{}}},
		{"a position that is none", `{"from":"c","n":1,"written":{"tenant":"birch","settled":["x"]}}`, []notice.Notice{notice.Lost{}}},
		{"a row of a position that is none", `{"from":"c","n":2,"written":{"tenant":"birch","parked":[{"chunk":"x"}]}}`, []notice.Notice{notice.Lost{}}},
		{"the third's end", `{"from":"c","n":2,"bye":true}`, nil},
	} {
		w.say(c.says)
		assert.Equal(t, append([]notice.Notice{}, c.want...), w.settle(), c.name)
	}
}

// What is told just before the end is sent by it.
func TestWhatIsToldLastIsSent(t *testing.T) {
	t.Parallel()
	w := listenTo(t, time.Minute)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 20 {
		b := bus(w.nc)
		b.Tell(notice.Statement{Tenant: "birch"})
		require.NoError(t, b.Run(over))
		require.Equal(t, []notice.Notice{notice.Statement{Tenant: "birch"}}, w.settle())
	}
}

// Somebody who falls silent without a goodbye may have told something that got lost.
func TestSilenceIsALoss(t *testing.T) {
	t.Parallel()
	w := listenTo(t, beat)
	w.say(`{"from":"a","n":1,"statement":{"Tenant":"birch"}}`)
	w.awaitLost(t, "it is silent")
	w.awaitLost(t, "and stays so")
	require.Eventually(t, func() bool {
		w.take()
		time.Sleep(4 * beat)
		return len(w.take()) == 0
	}, 30*time.Second, time.Millisecond, "it is forgotten")
}

// What is too large for the cluster is a loss to others, and nothing more.
func TestANoticeThatIsTooLarge(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, natstest.Options{Config: "max_payload: 4096\n"})
	one, other, heard := bus(server.Connect(t)), bus(server.Connect(t)), &ear{}
	other.Listen(heard.hear)
	for _, b := range []*natsnotice.Bus{one, other} {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- b.Run(ctx) }()
		t.Cleanup(func() { cancel(); assert.NoError(t, <-done) })
	}
	small := notice.Statement{Tenant: "birch"}
	require.Eventually(t, func() bool { one.Tell(small); return len(heard.take()) > 0 }, 30*time.Second, 10*time.Millisecond)
	one.Tell(notice.Written{Topic: mq.Topic{Tenant: "birch", Table: "t"}, Parked: []notice.ParkedRow{{Message: strings.Repeat("m", 8192)}}})
	heard.awaitLost(t, "in its place")
	one.Tell(notice.Written{Topic: mq.Topic{Tenant: "birch", Table: "a\xff.b"}, Inserted: 3})
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(heard.take(), func(n notice.Notice) bool {
			return assert.ObjectsAreEqual(notice.Written{Topic: mq.Topic{Tenant: "birch", Table: "a\xff.b"}, Inserted: 3}, n)
		})
	}, 30*time.Second, 10*time.Millisecond, "names of any bytes")
}
