package natskv_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/coord"
	"github.com/wavehouse/wavehouse/internal/coord/coordtest"
	"github.com/wavehouse/wavehouse/internal/coord/natskv"
)

// cluster is a server with the bucket.
type cluster struct {
	t   *testing.T
	url string
}

func start(t *testing.T) *cluster {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: filepath.Join(t.TempDir(), "js"), NoSigs: true, NoLog: true,
	})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(30*time.Second))
	c := &cluster{t, s.ClientURL()}
	js, err := jetstream.New(c.connect(), jetstream.WithDefaultTimeout(30*time.Second))
	require.NoError(t, err)
	_, err = js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "wh_coord", History: 1})
	require.NoError(t, err)
	return c
}

func (c *cluster) connect() *nats.Conn {
	c.t.Helper()
	nc, err := nats.Connect(c.url, nats.Timeout(30*time.Second))
	require.NoError(c.t, err)
	c.t.Cleanup(nc.Close)
	return nc
}

// process is one process's coordinator, and its connection.
func (c *cluster) process() (*natskv.Coordinator, *nats.Conn) {
	c.t.Helper()
	nc := c.connect()
	bucket, err := natskv.On(nc, "wh_coord")
	require.NoError(c.t, err)
	coordinator := natskv.New(natskv.Options{Bucket: bucket, Instance: "one"})
	c.t.Cleanup(func() { _ = coordinator.Close(context.Background()) })
	return coordinator, nc
}

func TestConformance(t *testing.T) {
	t.Parallel()
	coordtest.Run(t, func(t *testing.T) coord.Coordinator {
		c, _ := start(t).process()
		return c
	})
}

func TestRevisionsOfARealBucket(t *testing.T) {
	t.Parallel()
	bucket, err := natskv.On(start(t).connect(), "wh_coord")
	require.NoError(t, err)
	_, found, err := bucket.Get(t.Context(), "lease.a.m0")
	require.NoError(t, err)
	require.False(t, found)
	all, err := bucket.List(t.Context(), "lease.a.")
	require.NoError(t, err)
	require.Empty(t, all)

	first, err := bucket.Update(t.Context(), "lease.a.m0", []byte("one"), 0)
	require.NoError(t, err)
	_, err = bucket.Update(t.Context(), "lease.a.m0", []byte("two"), 0)
	require.ErrorIs(t, err, natskv.ErrRevision)
	second, err := bucket.Update(t.Context(), "lease.a.m0", []byte("two"), first)
	require.NoError(t, err)
	require.Greater(t, second, first)
	third, err := bucket.Update(t.Context(), "lease.a.m1", []byte("three"), 0)
	require.NoError(t, err)
	_, err = bucket.Update(t.Context(), "lease.b.m1", []byte("four"), 0)
	require.NoError(t, err)

	e, found, err := bucket.Get(t.Context(), "lease.a.m0")
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, natskv.Entry{Key: "lease.a.m0", Value: []byte("two"), Revision: second}, e)
	all, err = bucket.List(t.Context(), "lease.a.")
	require.NoError(t, err)
	require.Equal(t, []natskv.Entry{e, {Key: "lease.a.m1", Value: []byte("three"), Revision: third}}, all)
	_, err = must(natskv.On(start(t).connect(), "other"))(t).Update(t.Context(), "a", nil, 0)
	require.Error(t, err)
	require.NotErrorIs(t, err, natskv.ErrRevision, "there is no such bucket")
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T { require.NoError(t, err); return v }
}

// A lease that is given up is another's at once; one whose holder is cut off, after
// fifteen seconds, and the former holder has stopped by then.
func TestALeaseChangesHands(t *testing.T) {
	t.Parallel()
	service := start(t)
	one, connection := service.process()
	other, _ := service.process()
	held, stopped := make(chan coord.Token, 2), make(chan time.Time, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = one.Elect(ctx, "a", func(ctx context.Context, token coord.Token) error {
			held <- token
			<-ctx.Done()
			stopped <- time.Now()
			return ctx.Err()
		})
	}()
	first := <-held
	connection.Close()
	require.NoError(t, other.Elect(t.Context(), "a", func(_ context.Context, token coord.Token) error {
		took := time.Now()
		assert.Greater(t, token, first)
		select {
		case at := <-stopped:
			assert.True(t, at.Before(took))
		default:
			assert.Fail(t, "both hold")
		}
		return nil
	}))
	bucket, err := natskv.On(service.connect(), "wh_coord")
	require.NoError(t, err)
	lease, found, err := bucket.Get(t.Context(), "lease.a")
	require.NoError(t, err)
	require.True(t, found)
	assert.JSONEq(t, `{"holder":""}`, string(lease.Value), "it was given up: nobody waits for it")
	third, _ := service.process()
	require.NoError(t, third.Elect(t.Context(), "a", func(context.Context, coord.Token) error { return nil }))
	cancel()
	<-done
}

// Members see each other come and leave; a place that was left is taken again.
func TestMembersComeAndLeave(t *testing.T) {
	t.Parallel()
	service := start(t)
	one, _ := service.process()
	first, err := one.Members(t.Context(), "ingest")
	require.NoError(t, err)
	assert.Equal(t, "m0", first.Self)
	assert.Equal(t, []string{"m0"}, first.Members)

	two, _ := service.process()
	ctx, leave := context.WithCancel(t.Context())
	second, err := two.Members(ctx, "ingest")
	require.NoError(t, err)
	assert.Equal(t, "m1", second.Self)
	assert.Equal(t, []string{"m0", "m1"}, second.Members)
	assert.Equal(t, []string{"m0", "m1"}, next(t, first))
	leave()
	assert.Equal(t, []string{"m0"}, next(t, first))
	for range second.Changes {
		continue
	}
	three, connection := service.process()
	third, err := three.Members(t.Context(), "ingest")
	require.NoError(t, err)
	assert.Equal(t, "m1", third.Self)
	connection.Close()
	for range third.Changes {
		continue // it ends for who cannot renew it
	}
}

func next(t *testing.T, m coord.Membership) []string {
	t.Helper()
	select {
	case members := <-m.Changes:
		return members
	case <-time.After(time.Minute):
		require.FailNow(t, "no change")
		return nil
	}
}
