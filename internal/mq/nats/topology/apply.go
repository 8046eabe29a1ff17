package topology

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Apply makes, or changes, everything of a topology. It is for development and
// tests: a cluster that holds rows is changed by its operator.
func Apply(ctx context.Context, js jetstream.JetStream, t Topology) error {
	for _, p := range t.Partitions {
		if _, err := js.CreateOrUpdateStream(ctx, p.Stream); err != nil {
			return fmt.Errorf("make stream %s: %w", p.Stream.Name, unanswered(js, err))
		}
		if _, err := js.CreateOrUpdatePushConsumer(ctx, p.Stream.Name, p.History); err != nil {
			return fmt.Errorf("make durable %s of stream %s: %w", p.History.Durable, p.Stream.Name, err)
		}
		for _, shard := range p.Shards {
			if _, err := js.CreateOrUpdateConsumer(ctx, p.Stream.Name, shard); err != nil {
				return fmt.Errorf("make durable %s of stream %s: %w", shard.Durable, p.Stream.Name, err)
			}
		}
		if _, err := js.CreateOrUpdateStream(ctx, p.Mirror); err != nil {
			return fmt.Errorf("make stream %s: %w", p.Mirror.Name, err)
		}
	}
	if _, err := js.CreateOrUpdateStream(ctx, t.DeadLetters); err != nil {
		return fmt.Errorf("make stream %s: %w", t.DeadLetters.Name, err)
	}
	for _, bucket := range t.Buckets {
		if _, err := js.CreateOrUpdateKeyValue(ctx, bucket); err != nil {
			return fmt.Errorf("make bucket %s: %w", bucket.Bucket, err)
		}
	}
	return nil
}

// JetStream is what a cluster is asked through.
type JetStream = jetstream.JetStream

// On is the JetStream of a connection, which the caller closes.
func On(nc *nats.Conn) (JetStream, error) { return jetstream.New(nc) }
