package topology_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq/nats/topology"
)

func wanted(p topology.Plan) topology.Wanted {
	return topology.Wanted{
		Names: p.Names, Partitions: p.Partitions, Shards: p.Shards,
		DuplicateWindow: 30 * time.Second, HistoryAge: p.HistoryAge, MaxMessage: 1 << 20,
	}
}

// verified waits until the histories have attached.
func verified(t *testing.T, js jetstream.JetStream, w topology.Wanted) *topology.Report {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		r, err := topology.Verify(t.Context(), js, w)
		require.NoError(t, err)
		settled := true
		for _, f := range r.Findings {
			settled = settled && !f.Transient
		}
		if settled || time.Now().After(end) {
			return r
		}
	}
}

func TestWhatWeMakeIsAsWeWantIt(t *testing.T) {
	t.Parallel()
	js, plan := connect(t), small()
	require.NoError(t, topology.Apply(t.Context(), js, topology.Of(plan)))
	r := verified(t, js, wanted(plan))
	require.NoError(t, r.Err())
	for _, f := range r.Findings {
		assert.Contains(t, f.What, "num_replicas is 1", "%v", f)
	}
	require.Len(t, r.Partitions, 2)
	for _, p := range r.Partitions {
		assert.Equal(t, []bool{true, true, true}, p.Covered)
		assert.False(t, p.Created.IsZero())
	}
	assert.Equal(t, 15*time.Second, r.AckWait)
	assert.Equal(t, plan.DuplicateWindow, r.DuplicateWindow)
}

// Every rule, by a cluster that breaks it: what is found is required when rows
// could be lost, stuck or written twice, and recommended otherwise.
func TestEveryRuleIsHeld(t *testing.T) {
	t.Parallel()
	js := connect(t)
	type part = topology.Partition
	later := time.Now().Add(time.Hour)
	for n, c := range []struct {
		required bool
		want     string
		change   func(p *part)
	}{
		{true, "INGEST_1: subjects are", func(p *part) { p.Stream.Subjects = append(p.Stream.Subjects, p.Stream.Name+".more") }},
		{true, "INGEST_1: retention is", func(p *part) { p.Stream.Retention = jetstream.LimitsPolicy }},
		{true, "INGEST_1: discard is", func(p *part) { p.Stream.Discard, p.Stream.DiscardNewPerSubject = jetstream.DiscardOld, false }},
		{true, "INGEST_1: max_age is", func(p *part) { p.Stream.MaxAge = time.Hour }},
		{true, "INGEST_1: duplicate_window is", func(p *part) { p.Stream.Duplicates = 10 * time.Second }},
		{true, "INGEST_1: max_msgs_per_subject is", func(p *part) { p.Stream.DiscardNewPerSubject = false }},
		{false, "INGEST_1: max_msgs_per_subject is not set", func(p *part) { p.Stream.MaxMsgsPerSubject, p.Stream.DiscardNewPerSubject = -1, false }},
		{false, "INGEST_1: max_bytes is not set", func(p *part) { p.Stream.MaxBytes = -1 }},
		{true, "INGEST_1: subject_transform", func(p *part) {
			p.Stream.SubjectTransform = &jetstream.SubjectTransformConfig{Source: p.Stream.Subjects[0], Destination: p.Stream.Subjects[0]}
		}},
		{false, "INGEST_1: republish", func(p *part) {
			p.Stream.RePublish = &jetstream.RePublish{Source: ">", Destination: p.Stream.Name + ".>"}
		}},
		{true, "INGEST_1: max_msg_size", func(p *part) { p.Stream.MaxMsgSize = 1000 }},
		{true, "INGEST_1: storage is", func(p *part) { p.Stream.Storage = jetstream.MemoryStorage }},
		{true, "INGEST_1: allow_msg_ttl", func(p *part) { p.Stream.AllowMsgTTL = true }},
		{false, "INGEST_1: allow_direct", func(p *part) { p.Stream.AllowDirect = false }},
		{true, "ingest-1: filter is", func(p *part) {
			p.Shards[1].FilterSubject = p.Shards[1].FilterSubject[:len(p.Shards[1].FilterSubject)-1] + "birch.*"
		}},
		{true, "ingest-1: the durable is missing", func(p *part) { p.Shards = append(p.Shards[:1:1], p.Shards[2:]...) }},
		{true, "ingest-1: max_deliver is", func(p *part) { p.Shards[1].MaxDeliver = 5 }},
		{true, "ingest-1: ack_wait is 2s", func(p *part) { p.Shards[1].AckWait = 2 * time.Second }},
		{false, "ingest-1: ack_wait is 1m0s", func(p *part) { p.Shards[1].AckWait = time.Minute }},
		{true, "ingest-1: backoff", func(p *part) {
			p.Shards[1].BackOff, p.Shards[1].AckWait = []time.Duration{12 * time.Second}, 0
		}},
		{true, "ingest-1: priority_policy", func(p *part) {
			p.Shards[1].PriorityPolicy, p.Shards[1].PriorityGroups, p.Shards[1].PinnedTTL = jetstream.PriorityPolicyNone, nil, 0
		}},
		{true, "ingest-1: priority_groups", func(p *part) { p.Shards[1].PriorityGroups = []string{"theirs"} }},
		{true, "ingest-1: priority_timeout is 2s", func(p *part) { p.Shards[1].PinnedTTL = 2 * time.Second }},
		{true, "ingest-1: the durable is paused", func(p *part) { p.Shards[1].PauseUntil = &later }},
		{true, "ingest-1: headers_only", func(p *part) { p.Shards[1].HeadersOnly = true }},
		{true, "ingest-1: inactive_threshold", func(p *part) { p.Shards[1].InactiveThreshold = time.Hour }},
		{true, "ingest-1: replay_policy", func(p *part) { p.Shards[1].ReplayPolicy = jetstream.ReplayOriginalPolicy }},
		{true, "ingest-1: max_batch", func(p *part) { p.Shards[1].MaxRequestBatch = 1 }},
		{true, "ingest-1: mem_storage", func(p *part) { p.Shards[1].MemoryStorage = true }},
		{false, "ingest-1: max_ack_pending is 10", func(p *part) { p.Shards[1].MaxAckPending = 10 }},
		{true, "ingest-1: max_waiting is 1", func(p *part) { p.Shards[1].MaxWaiting = 1 }},
		{true, "ingest-1: deliver_policy", func(p *part) { p.Shards[1].DeliverPolicy = jetstream.DeliverNewPolicy }},
		{false, "ingest-9: a shard's durable that is not", func(p *part) {
			extra := p.Shards[1]
			extra.Durable = strings.TrimSuffix(extra.Durable, "1") + "9"
			p.Shards = append(p.Shards, extra)
		}},
		{false, "somebody: a consumer that is not", func(p *part) {
			p.Shards = append(p.Shards, jetstream.ConsumerConfig{Durable: "somebody", AckPolicy: jetstream.AckExplicitPolicy})
		}},
		{false, "history: max_ack_pending is 100", func(p *part) { p.History.MaxAckPending = 100 }},
		{true, "history: the durable is paused", func(p *part) { p.History.PauseUntil = &later }},
		{true, "HISTORY_1: the mirror has a filter", func(p *part) {
			p.Mirror.Mirror.FilterSubject = p.Shards[1].FilterSubject
			p.Mirror.Mirror.Consumer = nil
		}},
		{false, "HISTORY_1: the mirror does not read through", func(p *part) { p.Mirror.Mirror.Consumer = nil }},
		{true, "HISTORY_1: the stream is not a mirror", func(p *part) { p.Mirror.Mirror = nil; p.Mirror.MirrorDirect = false }},
		{true, "HISTORY_1: discard is", func(p *part) { p.Mirror.Discard = jetstream.DiscardNew }},
		{true, "HISTORY_1: max_msgs_per_subject is 5", func(p *part) { p.Mirror.MaxMsgsPerSubject = 5 }},
		{false, "HISTORY_1: max_age is 1m0s", func(p *part) { p.Mirror.MaxAge = time.Minute }},
	} {
		plan := small()
		plan.Prefix, plan.Bucket, plan.IDs = fmt.Sprint("r", n), fmt.Sprint("r", n), ""
		made := topology.Of(plan)
		c.change(&made.Partitions[1])
		require.NoError(t, topology.Apply(t.Context(), js, made), c.want)
		require.Eventually(t, func() bool {
			r, err := topology.Verify(t.Context(), js, wanted(plan))
			require.NoError(t, err)
			for _, f := range r.Findings {
				if strings.Contains(f.String(), c.want) {
					return f.Required == c.required
				}
			}
			return false
		}, 30*time.Second, 20*time.Millisecond, "%s", c.want)
		for _, name := range names(made) {
			require.NoError(t, js.DeleteStream(t.Context(), name))
		}
	}
}

func names(made topology.Topology) []string {
	all := []string{made.DeadLetters.Name, made.BucketStream()}
	for _, p := range made.Partitions {
		all = append(all, p.Mirror.Name, p.Stream.Name)
	}
	return all
}

// What is missing altogether is named all at once, whatever else is wrong.
func TestAnEmptyClusterLacksEverything(t *testing.T) {
	t.Parallel()
	js, plan := connect(t), small()
	r, err := topology.Verify(t.Context(), js, wanted(plan))
	require.NoError(t, err)
	for _, name := range names(topology.Of(plan)) {
		assert.ErrorContains(t, r.Err(), "required: "+name)
	}
	var all *topology.Error
	require.ErrorAs(t, r.Err(), &all)
	require.Equal(t, []bool{false, false, false}, r.Partitions[0].Covered)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = topology.Verify(ctx, js, wanted(plan))
	require.Error(t, err)
}
