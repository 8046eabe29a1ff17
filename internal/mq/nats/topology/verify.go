package topology

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Wanted is what a cluster is held against.
type Wanted struct {
	Names
	Partitions, Shards int
	// DuplicateWindow is what a partition's must be above.
	DuplicateWindow time.Duration
	// HistoryAge is what a history should keep; 0 is anything.
	HistoryAge time.Duration
	// MaxMessage is what a stream must take for one message, in bytes.
	MaxMessage int
	// AckWait is the least ack wait; 0 is MinAckWait.
	AckWait time.Duration
}

// PartitionState is what a verification saw of a partition.
type PartitionState struct {
	// Created is when its stream was made, which names it; zero when there is none.
	Created time.Time
	// Covered tells of each shard whether its durable takes all of its chunks.
	Covered []bool
	// LeftOver are shards beyond those configured that still have something.
	LeftOver []int
	// Behind counts what the history has yet to copy.
	Behind uint64
}

// Verify looks at a cluster and changes nothing. The error is of asking; what the
// answers lack is in the report.
func Verify(ctx context.Context, js jetstream.JetStream, w Wanted) (*Report, error) {
	if w.AckWait == 0 {
		w.AckWait = MinAckWait
	}
	r := &Report{}
	account, err := js.AccountInfo(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask for the account: %w", unanswered(js, err))
	}
	r.at("account").must(account.API.Level >= MinAPILevel,
		"the servers speak JetStream API level %d: %d, of nats-server 2.14, is the least", account.API.Level, MinAPILevel)
	for p := range w.Partitions {
		state, err := w.partition(ctx, js, r, p)
		if err != nil {
			return nil, err
		}
		r.Partitions = append(r.Partitions, state)
	}
	letters, err := w.letters(ctx, js, r)
	if err != nil {
		return nil, err
	}
	for _, ask := range []func(context.Context, jetstream.JetStream, *Report) error{w.leftOver, w.bucket, w.refusals} {
		if err := ask(ctx, js, r); err != nil {
			return nil, err
		}
	}
	return r, w.ask(ctx, js, r, letters)
}

// stream returns nil for one that is missing.
func stream(ctx context.Context, js jetstream.JetStream, name string) (*jetstream.StreamInfo, jetstream.Stream, error) {
	s, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("ask for stream %s: %w", name, unanswered(js, err))
	}
	return s.CachedInfo(), s, nil
}

// unanswered names the permission that a request lacked: a server does not answer it,
// but tells the connection.
func unanswered(js jetstream.JetStream, err error) error {
	last := js.Conn().LastError()
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(last, nats.ErrPermissionViolation) {
		return err
	}
	return fmt.Errorf("%w: %w ('wavehouse mq permissions' prints what the user of WaveHouse may do)", err, last)
}

func (w Wanted) partition(ctx context.Context, js jetstream.JetStream, r *Report, p int) (PartitionState, error) {
	state := PartitionState{Covered: make([]bool, w.Shards)}
	name := w.Ingest(p)
	info, s, err := stream(ctx, js, name)
	if err != nil {
		return state, err
	}
	if info == nil {
		r.add(name, true, "the stream is missing, and so are its durables")
		return state, w.history(ctx, js, r, p, &jetstream.StreamState{}, &state)
	}
	state.Created = info.Created
	w.ingestRules(r.at(name), &info.Config, p)
	r.DuplicateWindow = shortest(r.DuplicateWindow, info.Config.Duplicates)
	if err := w.durables(ctx, js, s, r, p, &state); err != nil {
		return state, err
	}
	return state, w.history(ctx, js, r, p, &info.State, &state)
}

func shortest(a, b time.Duration) time.Duration {
	if a == 0 || (b > 0 && b < a) {
		return b
	}
	return a
}

func (w Wanted) ingestRules(at rules, c *jetstream.StreamConfig, p int) {
	subjects := []string{w.PartitionSubjects(p)}
	at.must(slices.Equal(c.Subjects, subjects), "subjects are %q: want %q", c.Subjects, subjects)
	at.must(c.Retention == jetstream.InterestPolicy, "retention is %s: want interest", c.Retention)
	at.must(c.Discard == jetstream.DiscardNew, "discard is %s: want new, as old drops rows that wait", c.Discard)
	at.must(c.MaxAge == 0, "max_age is %s: want none, as it drops rows that wait", c.MaxAge)
	at.must(c.Duplicates > w.DuplicateWindow, "duplicate_window is %s: want more than %s", c.Duplicates, w.DuplicateWindow)
	at.must(c.MaxMsgsPerSubject <= 0 || c.DiscardNewPerSubject,
		"max_msgs_per_subject is %d without discard_new_per_subject, which drops rows that wait", c.MaxMsgsPerSubject)
	at.should(c.MaxMsgsPerSubject > 0, "max_msgs_per_subject is not set: a table that is stuck can fill the partition")
	at.should(c.MaxBytes > 0, "max_bytes is not set: the partition can fill the server's disk")
	at.must(!c.NoAck, "no_ack is set")
	at.must(!c.Sealed, "the stream is sealed")
	at.must(c.Mirror == nil && len(c.Sources) == 0, "the stream has a mirror or sources: what they bring has no order here")
	at.must(c.SubjectTransform == nil, "subject_transform is set")
	at.should(c.RePublish == nil, "republish is set: WaveHouse has no use for it")
	at.must(c.MaxMsgSize <= 0 || int(c.MaxMsgSize) >= w.MaxMessage, "max_msg_size is %d: want %d, or none", c.MaxMsgSize, w.MaxMessage)
	at.must(c.Storage == jetstream.FileStorage, "storage is %s: want file", c.Storage)
	at.must(c.PersistMode == jetstream.DefaultPersistMode, "persist_mode is not the default: what is acknowledged may not be stored")
	at.must(!c.AllowMsgTTL, "allow_msg_ttl is set: rows that wait could expire")
	at.should(c.AllowDirect, "allow_direct is not set")
	w.replicas(at, c)
}

func (w Wanted) replicas(at rules, c *jetstream.StreamConfig) {
	at.should(c.Replicas >= 3, "num_replicas is %d: with fewer than 3 the loss of a server is the loss of the stream for as long", c.Replicas)
}

// durables looks at every consumer of a partition.
func (w Wanted) durables(ctx context.Context, js jetstream.JetStream, s jetstream.Stream, r *Report, p int, state *PartitionState) error {
	found := map[string]*jetstream.ConsumerInfo{}
	list := s.ListConsumers(ctx)
	for info := range list.Info() {
		found[info.Name] = info
	}
	if err := list.Err(); err != nil {
		return fmt.Errorf("ask for the consumers of %s: %w", w.Ingest(p), unanswered(js, err))
	}
	for i := range w.Shards {
		where := w.Ingest(p) + " " + w.Shard(i)
		info := found[w.Shard(i)]
		delete(found, w.Shard(i))
		if info == nil {
			r.add(where, true, "the durable is missing: what belongs to it would be gone at once")
			continue
		}
		w.shardRules(r.at(where), info, p, i)
		state.Covered[i] = covers(&info.Config, w.ShardSubjects(p, i))
		r.AckWait = shortest(r.AckWait, info.Config.AckWait)
	}
	w.mirrorDurable(r, p, found[w.Mirror()])
	delete(found, w.Mirror())
	for name, info := range found {
		if shard, ok := w.shardOf(name); ok {
			if info.NumPending > 0 || info.NumAckPending > 0 {
				state.LeftOver = append(state.LeftOver, shard)
			}
			r.add(w.Ingest(p)+" "+name, false, "a shard's durable that is not of the %d of mq.nats.shards: delete it once no process counts it and nothing is pending", w.Shards)
			continue
		}
		r.add(w.Ingest(p)+" "+name, false, "a consumer that is not WaveHouse's: what it does not acknowledge stays in the partition")
	}
	return nil
}

// shardOf reads a shard's number from its durable's name.
func (w Wanted) shardOf(durable string) (shard int, ok bool) {
	number, found := strings.CutPrefix(durable, strings.TrimSuffix(w.Shard(0), "0"))
	shard, err := strconv.Atoi(number)
	return shard, found && err == nil && shard >= 0 && w.Shard(shard) == durable
}

// covers reports whether a durable takes everything of subjects.
func covers(c *jetstream.ConsumerConfig, subjects string) bool {
	return c.FilterSubject == subjects && len(c.FilterSubjects) == 0
}

func (w Wanted) shardRules(at rules, info *jetstream.ConsumerInfo, p, shard int) {
	c := &info.Config
	at.must(covers(c, w.ShardSubjects(p, shard)), "filter is %q: want %q", append(slices.Clone(c.FilterSubjects), c.FilterSubject), w.ShardSubjects(p, shard))
	at.must(c.AckPolicy == jetstream.AckExplicitPolicy, "ack_policy is %s: want explicit", c.AckPolicy)
	at.must(c.DeliverPolicy == jetstream.DeliverAllPolicy, "deliver_policy is %s: want all", c.DeliverPolicy)
	at.must(c.MaxDeliver <= 0, "max_deliver is %d: want -1, as what is delivered that often is never delivered again", c.MaxDeliver)
	at.must(c.AckWait >= w.AckWait, "ack_wait is %s: want %s or more", c.AckWait, w.AckWait)
	at.should(c.AckWait <= 15*time.Second, "ack_wait is %s: above 15s a dead process is taken over late", c.AckWait)
	at.must(len(c.BackOff) == 0, "backoff is set: it overrides ack_wait")
	at.must(c.PriorityPolicy == jetstream.PriorityPolicyPinned, "priority_policy is not pinned_client: two processes could write the same rows")
	at.must(slices.Equal(c.PriorityGroups, []string{Group}), "priority_groups are %q: want %q", c.PriorityGroups, []string{Group})
	at.must(c.PinnedTTL >= MinPinnedTTL, "priority_timeout is %s: want %s or more", c.PinnedTTL, MinPinnedTTL)
	at.should(c.PinnedTTL <= 15*time.Second, "priority_timeout is %s: above 15s a dead process is taken over late", c.PinnedTTL)
	at.must(c.DeliverSubject == "", "deliver_subject is set: want a pull consumer")
	at.must(!info.Paused, "the durable is paused until %v", c.PauseUntil)
	at.must(!c.HeadersOnly, "headers_only is set")
	at.must(c.InactiveThreshold == 0, "inactive_threshold is %s: the durable would be deleted while no process runs", c.InactiveThreshold)
	at.must(c.ReplayPolicy == jetstream.ReplayInstantPolicy, "replay_policy is not instant")
	at.must(c.MaxRequestBatch <= 0 && c.MaxRequestExpires <= 0 && c.MaxRequestMaxBytes <= 0,
		"max_batch, max_expires or max_bytes is set: requests would be refused")
	at.must(!c.MemoryStorage, "mem_storage is set: what is acknowledged would be forgotten")
	at.should(c.MaxAckPending < 0 || c.MaxAckPending >= 1000, "max_ack_pending is %d: a stuck table would hold up its shard", c.MaxAckPending)
	at.must(c.MaxWaiting == 0 || c.MaxWaiting >= 16, "max_waiting is %d: want 16 or more", c.MaxWaiting)
}

func (w Wanted) mirrorDurable(r *Report, p int, info *jetstream.ConsumerInfo) {
	where := w.Ingest(p) + " " + w.Mirror()
	if info == nil {
		r.add(where, false, "the history's durable is missing: around a failover the history may lack rows, which readers see as a gap")
		return
	}
	c, at := &info.Config, r.at(where)
	at.must(c.DeliverSubject == w.MirrorSubject(p), "deliver_subject is %q: want %q", c.DeliverSubject, w.MirrorSubject(p))
	at.must(c.AckPolicy == jetstream.AckFlowControlPolicy, "ack_policy is %s: want flow_control", c.AckPolicy)
	at.must(c.FilterSubject == "" && len(c.FilterSubjects) == 0, "a filter is set: the history would lack rows")
	at.must(c.DeliverPolicy == jetstream.DeliverAllPolicy, "deliver_policy is %s: want all", c.DeliverPolicy)
	at.must(c.DeliverGroup == "", "deliver_group is set")
	at.must(c.FlowControl && c.IdleHeartbeat > 0, "flow_control or idle_heartbeat is not set")
	at.must(!info.Paused, "the durable is paused until %v", c.PauseUntil)
	at.must(!c.HeadersOnly, "headers_only is set")
	at.must(c.InactiveThreshold == 0, "inactive_threshold is %s: the durable would be deleted with what it has yet to copy", c.InactiveThreshold)
	at.should(c.MaxAckPending < 0 || c.MaxAckPending >= MinMirrorPending, "max_ack_pending is %d: with less than %d the history stalls", c.MaxAckPending, MinMirrorPending)
	at.should(c.RateLimit == 0, "rate_limit_bps is set: the history falls behind")
}

// mirrorAttached is how long a mirror may be silent; it hears of its source every
// second.
const mirrorAttached = 30 * time.Second

func (w Wanted) history(ctx context.Context, js jetstream.JetStream, r *Report, p int, source *jetstream.StreamState, state *PartitionState) error {
	name := w.History(p)
	info, _, err := stream(ctx, js, name)
	if err != nil {
		return err
	}
	at := r.at(name)
	if info == nil {
		at.must(false, "the stream is missing")
		return nil
	}
	state.Behind = source.LastSeq - min(source.LastSeq, info.State.LastSeq)
	c := &info.Config
	if c.Mirror == nil || c.Mirror.Name != w.Ingest(p) {
		at.must(false, "the stream is not a mirror of %s", w.Ingest(p))
		return nil
	}
	at.must(c.Mirror.FilterSubject == "" && len(c.Mirror.SubjectTransforms) == 0, "the mirror has a filter or transforms: positions would mean other rows")
	at.should(c.Mirror.Consumer != nil && c.Mirror.Consumer.Name == w.Mirror(),
		"the mirror does not read through the durable %s: around a failover it may lack rows, which readers see as a gap", w.Mirror())
	at.must(c.Mirror.Consumer == nil || c.Mirror.Consumer.DeliverSubject == w.MirrorSubject(p), "the mirror listens on another subject than %q", w.MirrorSubject(p))
	at.must(c.Retention == jetstream.LimitsPolicy, "retention is %s: want limits", c.Retention)
	at.must(c.Discard == jetstream.DiscardOld, "discard is %s: want old, as a history that is full would hold up the partition", c.Discard)
	at.must(c.MaxMsgsPerSubject <= 0, "max_msgs_per_subject is %d: the history would lack rows", c.MaxMsgsPerSubject)
	at.must(c.MaxMsgSize <= 0 || int(c.MaxMsgSize) >= w.MaxMessage, "max_msg_size is %d: want %d, or none", c.MaxMsgSize, w.MaxMessage)
	at.must(!c.Sealed, "the stream is sealed")
	at.should(c.MaxAge == 0 || c.MaxAge >= w.HistoryAge, "max_age is %s: shorter than the longest gap window, %s", c.MaxAge, w.HistoryAge)
	at.should(c.AllowDirect && c.MirrorDirect, "allow_direct or mirror_direct is not set")
	w.replicas(at, c)
	if m := info.Mirror; m == nil || m.Error != nil || m.Active < 0 || m.Active > mirrorAttached {
		r.Findings = append(r.Findings, Finding{Where: name, What: "the mirror is not attached to " + w.Ingest(p) + ", as a new one is within seconds" + silence(m), Required: true, Transient: true})
	}
	return nil
}

func silence(m *jetstream.StreamSourceInfo) string {
	switch {
	case m == nil || m.Active < 0:
		return ""
	case m.Error != nil:
		return ": " + m.Error.Error()
	}
	return fmt.Sprintf(": it heard nothing for %s", mirrorAttached)
}

// leftOver finds partitions beyond those configured, which nobody writes.
func (w Wanted) leftOver(ctx context.Context, js jetstream.JetStream, r *Report) error {
	name := w.Ingest(w.Partitions)
	info, _, err := stream(ctx, js, name)
	if err == nil && info != nil {
		r.add(name, false, "a partition that is not of the %d of mq.nats.partitions: delete it, and its history, once no process counts it and nothing is pending", w.Partitions)
	}
	return err
}

// letters tells whether the stream is there.
func (w Wanted) letters(ctx context.Context, js jetstream.JetStream, r *Report) (there bool, err error) {
	name := w.DeadLetters()
	info, _, err := stream(ctx, js, name)
	if err != nil {
		return false, err
	}
	at := r.at(name)
	if info == nil {
		at.must(false, "the stream is missing")
		return false, nil
	}
	c, subjects := &info.Config, []string{w.LettersPrefix() + ">"}
	at.must(slices.Equal(c.Subjects, subjects), "subjects are %q: want %q", c.Subjects, subjects)
	at.must(c.Retention == jetstream.LimitsPolicy, "retention is %s: want limits", c.Retention)
	at.must(c.AllowDirect, "allow_direct is not set: dead letters could not be read")
	at.must(!c.DenyDelete, "deny_delete is set: dead letters could not be discarded")
	at.must(!c.Sealed, "the stream is sealed")
	at.must(c.Storage == jetstream.FileStorage, "storage is %s: want file", c.Storage)
	at.must(c.MaxMsgSize <= 0 || int(c.MaxMsgSize) >= w.MaxMessage, "max_msg_size is %d: want %d, or none", c.MaxMsgSize, w.MaxMessage)
	at.should(c.AllowAtomicPublish, "allow_atomic is not set: dead letters are stored one by one")
	at.should(c.MaxAge == 0, "max_age is %s: dead letters expire", c.MaxAge)
	at.should(c.MaxMsgsPerSubject <= 0, "max_msgs_per_subject is %d: a table's dead letters push each other out", c.MaxMsgsPerSubject)
	w.replicas(at, c)
	return true, nil
}

// bucket is looked at where one is wanted.
func (w Wanted) bucket(ctx context.Context, js jetstream.JetStream, r *Report) error {
	if w.Bucket == "" {
		return nil
	}
	name := w.BucketStream()
	info, _, err := stream(ctx, js, name)
	if err != nil {
		return err
	}
	at := r.at(name)
	if info == nil {
		at.must(false, "the bucket %s is missing", w.Bucket)
		return nil
	}
	c := &info.Config
	at.must(c.MaxMsgsPerSubject == 1, "the bucket's history is %d: want 1", c.MaxMsgsPerSubject)
	at.must(c.MaxAge == 0, "the bucket's ttl is %s: want none", c.MaxAge)
	at.must(c.AllowDirect, "allow_direct is not set")
	at.must(c.AllowRollup && !c.DenyPurge, "allow_rollup_hdrs is not set, or deny_purge is: leases could not be given up")
	w.replicas(at, c)
	return nil
}
