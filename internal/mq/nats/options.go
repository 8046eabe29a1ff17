package nats

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wavehouse/wavehouse/internal/coord"
	"github.com/wavehouse/wavehouse/internal/mq/nats/link"
	"github.com/wavehouse/wavehouse/internal/mq/nats/topology"
)

// Group tells who else delivers. A coord.Coordinator is one.
type Group interface {
	// Members joins a group until ctx ends.
	Members(ctx context.Context, group string) (coord.Membership, error)
}

// Options of New. Link, Names, Partitions, Shards and Group are required.
type Options struct {
	Link link.Options
	// Names, Partitions and Shards (of each partition) are as the operator made
	// them. A Bucket is verified unless "".
	Names              topology.Names
	Partitions, Shards int
	// Group is asked by Consume.
	Group Group
	// PublishTimeout bounds each of a publish's attempts; 0 for 5 s.
	PublishTimeout time.Duration
	// TopologyWait is how long New waits for the cluster, and for what is wrong
	// with it to be put right; 0 for 60 s.
	TopologyWait time.Duration
	// Remember is what the duplicate window must be above, beside the attempts
	// of a publish.
	Remember time.Duration
	// HistoryAge is how long histories should keep chunks.
	HistoryAge time.Duration
	// Logger, nil for slog.Default.
	Logger *slog.Logger
	// Registerer takes the broker's metrics until Close; nil for none.
	Registerer prometheus.Registerer

	// verifyEvery is how often the topology is looked at again, drainEvery how often
	// while shards are left over, watchEvery how often the histories are;
	// minAckWait is the least ack wait.
	verifyEvery, drainEvery, watchEvery, minAckWait time.Duration
	// layoutOld is when what other processes count is forgotten.
	layoutOld time.Duration
	// share tells who owns what.
	share func(members []string, all []place) map[place]string
}

const (
	// attempts is how often a publish is sent, with pauses between.
	attempts   = 3
	retryPause = 100 * time.Millisecond
	// retrySlack is above all pauses of a publish together.
	retrySlack = 500 * time.Millisecond
	// maxAhead bounds the bodies read ahead of the worker, over all shards.
	maxAhead = 64 << 20
	// maxBatch is the most chunks that one request asks for.
	maxBatch = 256
)

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.share == nil {
		o.share = share
	}
	setDuration(&o.PublishTimeout, 5*time.Second)
	setDuration(&o.TopologyWait, time.Minute)
	setDuration(&o.verifyEvery, 5*time.Minute)
	setDuration(&o.drainEvery, 10*time.Second)
	setDuration(&o.watchEvery, 5*time.Second)
	setDuration(&o.minAckWait, topology.MinAckWait)
	return o
}

func setDuration(d *time.Duration, to time.Duration) {
	if *d <= 0 {
		*d = to
	}
}

// places lists every shard of every partition.
func places(partitions, shards int) []place {
	var all []place
	for p := range partitions {
		for s := range shards {
			all = append(all, place{p, s})
		}
	}
	return all
}

// remember is what a partition's duplicate window must be above: the attempts of
// one publish, and what the caller asks for.
func (o Options) remember() time.Duration {
	return max(attempts*o.PublishTimeout+retrySlack, o.Remember)
}
