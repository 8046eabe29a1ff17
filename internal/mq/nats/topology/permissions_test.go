package topology_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq/nats/topology"
	"github.com/wavehouse/wavehouse/internal/mq/natstest"
)

// The user of WaveHouse can make, change, purge and delete none of the operator's
// streams and durables. That it can do all that it has to is the business of the
// broker's own suite, which runs as this user.
func TestThePermissionsRefuseWhatIsTheOperators(t *testing.T) {
	t.Parallel()
	plan := small()
	all := topology.Of(plan)
	conf := strings.Replace(topology.PermissionsOf(all).Conf(), "users = [\n", "users = [\n    { user: operator, password: operator }\n", 1)
	cluster := natstest.Start(t, natstest.Options{Config: "WAVEHOUSE_NATS_PASSWORD: secret\n" + conf})
	operator := nats.UserInfo("operator", "operator")
	cluster.Ready(t, operator)
	owner := cluster.JetStream(t, operator)
	require.NoError(t, topology.Apply(t.Context(), owner, all))
	js := cluster.JetStream(t, nats.UserInfo("wavehouse", "secret"))
	_, err := js.Publish(t.Context(), plan.ShardPrefix(0, 0)+"birch.pages", []byte("row"))
	require.NoError(t, err)
	_, err = js.Publish(t.Context(), plan.LettersPrefix()+"birch.pages", []byte("row"))
	require.NoError(t, err)

	part := all.Partitions[0]
	bigger, durable := part.Stream, part.Shards[0]
	bigger.MaxBytes++
	durable.MaxAckPending = 1
	names := []string{part.Stream.Name, part.Mirror.Name, all.DeadLetters.Name, all.BucketStream(), all.IDsStream()}
	type attempt func(context.Context) error
	attempts := map[string]attempt{
		"a stream": func(ctx context.Context) error {
			_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "WH_INGEST_9", Subjects: []string{"wh.ingest.9.>"}})
			return err
		},
		"another stream": func(ctx context.Context) error {
			_, err := js.UpdateStream(ctx, bigger)
			return err
		},
		"another durable": func(ctx context.Context) error {
			_, err := js.UpdateConsumer(ctx, part.Stream.Name, durable)
			return err
		},
		"a foreign durable": func(ctx context.Context) error {
			_, err := js.CreateConsumer(ctx, part.Stream.Name, jetstream.ConsumerConfig{Durable: "foreign", AckPolicy: jetstream.AckExplicitPolicy})
			return err
		},
		"no durable": func(ctx context.Context) error { return js.DeleteConsumer(ctx, part.Stream.Name, durable.Durable) },
		"a paused durable": func(ctx context.Context) error {
			_, err := js.PauseConsumer(ctx, part.Stream.Name, durable.Durable, time.Now().Add(time.Hour))
			return err
		},
		"no bucket": func(ctx context.Context) error { return js.DeleteKeyValue(ctx, plan.Bucket) },
	}
	for _, name := range names {
		attempts["no "+name] = func(ctx context.Context) error { return js.DeleteStream(ctx, name) }
		attempts["an empty "+name] = func(ctx context.Context) error {
			s, err := js.Stream(t.Context(), name)
			require.NoError(t, err, "it may look")
			return s.Purge(ctx)
		}
	}
	before := look(t, owner, names)
	for what, try := range attempts {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		require.ErrorIs(t, try(ctx), context.DeadlineExceeded, what)
		cancel()
	}
	assert.Equal(t, before, look(t, owner, names), "nothing is another")

	elsewhere := wanted(plan)
	elsewhere.Prefix = "elsewhere"
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := topology.Verify(ctx, js, elsewhere)
		return err != nil && strings.Contains(err.Error(), `Permissions Violation for Publish to "$JS.API.STREAM.INFO.ELSEWHERE_INGEST_0"`)
	}, 30*time.Second, time.Millisecond, "what may not be asked is named")
}

// look is what an operator sees of streams and their consumers.
func look(t *testing.T, js jetstream.JetStream, names []string) map[string]any {
	t.Helper()
	seen := map[string]any{}
	for _, name := range names {
		s, err := js.Stream(t.Context(), name)
		require.NoError(t, err)
		seen[name] = s.CachedInfo().Config
		consumers := s.ListConsumers(t.Context())
		for c := range consumers.Info() {
			seen[name+" "+c.Name] = c.Config
		}
		require.NoError(t, consumers.Err())
	}
	return seen
}
