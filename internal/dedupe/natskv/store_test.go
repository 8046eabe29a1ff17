package natskv

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/dedupe"
	"github.com/wavehouse/wavehouse/internal/dedupe/dedupetest"
	"github.com/wavehouse/wavehouse/internal/mq/nats/topology"
	"github.com/wavehouse/wavehouse/internal/mq/natstest"
)

func bucket(t *testing.T, c *natstest.Cluster, name string, replicas int, as ...nats.Option) {
	t.Helper()
	js := c.JetStream(t, as...)
	natstest.Await(t, "the bucket", func(ctx context.Context) error {
		_, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: name, History: 1, Replicas: replicas, LimitMarkerTTL: time.Second, Storage: jetstream.FileStorage,
		})
		return err
	})
}

func open(t *testing.T, nc *nats.Conn, o Options) *Store {
	t.Helper()
	if o.Lease == 0 {
		o.Lease = 30 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	s, err := New(nc, o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close(context.Background())) })
	return s
}

var (
	pages = dedupe.Scope{Tenant: "birch", Table: "pages"}
	anna  = dedupe.Owner{1}
	boris = dedupe.Owner{2}
)

// restricted is a server whose user of WaveHouse may do what is printed for it, with
// buckets ids-1 to ids-n.
func restricted(t *testing.T, n int) (c *natstest.Cluster, operator, user nats.Option) {
	t.Helper()
	plan := topology.Default()
	may := topology.PermissionsOf(topology.Of(plan))
	for i := range n {
		plan.IDs = fmt.Sprint("ids-", i+1)
		may.Publish = append(may.Publish, topology.PermissionsOf(topology.Of(plan)).Publish...)
	}
	slices.Sort(may.Publish)
	may.Publish = slices.Compact(may.Publish)
	conf := strings.Replace(may.Conf(), "users = [\n", "users = [\n    { user: operator, password: operator }\n", 1)
	c = natstest.Start(t, natstest.Options{Config: "WAVEHOUSE_NATS_PASSWORD: secret\n" + conf})
	operator = nats.UserInfo("operator", "operator")
	c.Ready(t, operator)
	return c, operator, nats.UserInfo("wavehouse", "secret")
}

// The servers have no clock that a test could move: what lapses and ends is looked
// at below, as it happens. The store is a user with nothing but the rights that the
// manual asks for.
func TestConformance(t *testing.T) {
	t.Parallel()
	c, operator, user := restricted(t, 40)
	n := 0
	skipped := dedupetest.Run(t, func(t *testing.T) *dedupetest.Subject {
		n++
		name := fmt.Sprint("ids-", n)
		bucket(t, c, name, 1, operator)
		s := open(t, c.Connect(t, user), Options{Bucket: name})
		return &dedupetest.Subject{Store: s, Lease: s.o.Lease, Reopen: func() dedupe.Store {
			return open(t, c.Connect(t, user), Options{Bucket: name})
		}}
	}, dedupetest.Reopens)
	require.Equal(t, 7, skipped)
}

func reserve(t *testing.T, s *Store, o dedupe.Owner, id string) dedupe.Reservation {
	t.Helper()
	all, err := s.Reserve(t.Context(), pages, o, []string{id})
	require.NoError(t, err)
	return all[0]
}

func commit(t *testing.T, s *Store, o dedupe.Owner, retention time.Duration, id string) (lost int) {
	t.Helper()
	lost, err := s.Commit(t.Context(), pages, o, []dedupe.Entry{{ID: id}}, retention)
	require.NoError(t, err)
	return lost
}

// until waits for an id to be new for an owner, and returns how long it was not.
func until(t *testing.T, s *Store, o dedupe.Owner, id string, since time.Time) time.Duration {
	t.Helper()
	require.Eventually(t, func() bool { return reserve(t, s, o, id).State == dedupe.New }, time.Minute, 5*time.Millisecond)
	return time.Since(since)
}

func TestReservationsLapseAndRetentionsEndByTheServersClock(t *testing.T) {
	t.Parallel()
	c := natstest.Start(t, natstest.Options{})
	bucket(t, c, "ids", 1)
	const lease = 4 * time.Second
	s := open(t, c.Connect(t), Options{Bucket: "ids", Lease: lease})

	began := time.Now()
	reserve(t, s, anna, "a")
	require.GreaterOrEqual(t, until(t, s, boris, "a", began), lease)
	require.Equal(t, 1, commit(t, s, anna, 0, "a"), "a slow owner does not take another's reservation")
	require.NoError(t, s.Release(t.Context(), pages, anna, []string{"a"}))
	require.Equal(t, dedupe.InFlight, reserve(t, s, anna, "a").State)
	require.Zero(t, commit(t, s, boris, 0, "a"))
	require.Equal(t, dedupe.Duplicate, reserve(t, s, anna, "a").State)

	reserve(t, s, anna, "slow")
	require.Eventually(t, func() bool {
		e, err := s.read(t.Context(), keyOf(pages, "slow"))
		return err == nil && e.absent
	}, time.Minute, 5*time.Millisecond)
	require.Zero(t, commit(t, s, anna, 3*time.Second, "slow"), "a slow owner may still commit")
	began = time.Now().Add(-time.Millisecond)
	require.Equal(t, dedupe.Duplicate, reserve(t, s, boris, "slow").State)
	require.GreaterOrEqual(t, until(t, s, boris, "slow", began), 2*time.Second)
	reserve(t, s, anna, "forgotten")
	s.held.Sweep(time.Now().Add(time.Hour))
	require.Zero(t, commit(t, s, anna, 0, "forgotten"), "it is read")
}

// Whoever waits reads; a reservation that is given up can be had at once.
func TestWaitingCostsNoWrites(t *testing.T) {
	t.Parallel()
	c := natstest.Start(t, natstest.Options{})
	bucket(t, c, "ids", 1)
	reg := prometheus.NewRegistry()
	s := open(t, c.Connect(t), Options{Bucket: "ids", Metrics: reg})
	reserve(t, s, anna, "a")
	for range 10 {
		require.Equal(t, dedupe.Reservation{State: dedupe.InFlight, RetryAfter: askAgain}, reserve(t, s, boris, "a"))
	}
	require.Equal(t, 2.0, requests(t, reg, "reserve"))
	require.NoError(t, s.Release(t.Context(), pages, anna, []string{"a"}))
	require.Equal(t, dedupe.New, reserve(t, s, boris, "a").State)
}

func requests(t *testing.T, reg *prometheus.Registry, operation string) (n float64) {
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "operation" && l.GetValue() == operation {
					n += m.GetCounter().GetValue()
				}
			}
		}
	}
	return n
}

func TestBucketsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	c := natstest.Start(t, natstest.Options{})
	js := c.JetStream(t)
	for want, config := range map[string]jetstream.KeyValueConfig{
		"it has no TTL for single keys": {Bucket: "plain", History: 1},
		"its history must be 1":         {Bucket: "history", History: 5, LimitMarkerTTL: time.Second},
		"it has a TTL for all keys":     {Bucket: "aged", History: 1, TTL: time.Hour, LimitMarkerTTL: time.Second},
		"there is no bucket missing":    {},
	} {
		name := "missing"
		if config.Bucket != "" {
			name = config.Bucket
			_, err := js.CreateKeyValue(t.Context(), config)
			require.NoError(t, err)
		}
		s := open(t, c.Connect(t), Options{Bucket: name, recheck: time.Millisecond})
		err := s.Want(t.Context(), true)
		require.ErrorIs(t, err, dedupe.ErrUnavailable)
		require.ErrorContains(t, err, want)
		_, err = s.Reserve(t.Context(), pages, anna, []string{"a"})
		require.ErrorContains(t, err, want, "it fails closed")

		if config.Bucket != "" {
			require.NoError(t, js.DeleteKeyValue(t.Context(), name))
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		bucket(t, c, name, 1)
		require.Eventually(t, s.bucket.Usable, time.Minute, time.Millisecond)
		require.False(t, s.bucket.Right(), "one replica is not what it should be")
		cancel()
		require.NoError(t, <-ended)
	}
}

// A cluster whose leader is killed again and again, and two processes that want the
// same ids: each is told new once, and what was committed stays so.
func TestAClusterThatLosesItsLeadersForgetsNothing(t *testing.T) {
	t.Parallel()
	c := natstest.Start(t, natstest.Options{Nodes: 3})
	bucket(t, c, "ids", 3)
	stores := [2]*Store{}
	for n := range stores {
		stores[n] = open(t, c.Connect(t), Options{Bucket: "ids", Lease: 5 * time.Second, Timeout: 5 * time.Second})
		natstest.Await(t, "the bucket to be seen", func(ctx context.Context) error { return stores[n].Want(ctx, true) })
	}
	require.True(t, stores[0].bucket.Right())
	const ids = 150
	var mu sync.Mutex
	told := map[string]int{}
	var clients sync.WaitGroup
	done := make(chan struct{})
	for n := range 6 {
		clients.Go(func() {
			s, o := stores[n%2], dedupe.Owner{byte(n + 1)}
			for i := range ids {
				id := fmt.Sprint("id-", i)
				insist(t, func() bool {
					all, err := s.Reserve(t.Context(), pages, o, []string{id})
					if err != nil || all[0].State == dedupe.InFlight {
						return false
					}
					if all[0].State == dedupe.Duplicate {
						return true
					}
					insist(t, func() bool {
						lost, err := s.Commit(t.Context(), pages, o, []dedupe.Entry{{ID: id}}, 0)
						if err == nil && lost == 0 {
							mu.Lock()
							told[id]++
							mu.Unlock()
						}
						return err == nil
					})
					return true
				})
			}
		})
	}
	go func() { clients.Wait(); close(done) }()
	js := c.JetStream(t)
	for range 3 {
		leader := c.Leader(t, js, "KV_ids")
		leader.Kill()
		leader.Start(t)
		c.Ready(t)
	}
	<-done
	for i := range ids {
		id := fmt.Sprint("id-", i)
		assert.LessOrEqual(t, told[id], 1, id)
		insist(t, func() bool {
			all, err := stores[0].Reserve(t.Context(), pages, dedupe.Owner{99}, []string{id})
			return err == nil && all[0].State == dedupe.Duplicate
		})
	}
}

func insist(t *testing.T, ok func() bool) {
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			assert.Fail(t, "it did not come to pass")
			return
		}
	}
}
