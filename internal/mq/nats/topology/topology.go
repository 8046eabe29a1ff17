package topology

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// What is required of a cluster, whatever its size.
const (
	// MinAPILevel of JetStream: nats-server 2.14.
	MinAPILevel = 4
	// MinAckWait and MinPinnedTTL keep a slow process from losing what it holds to
	// another.
	MinAckWait   = 10 * time.Second
	MinPinnedTTL = 10 * time.Second
	// MinMirrorPending is what a history may leave unacknowledged; with less it
	// stalls now and then.
	MinMirrorPending = 20_000
	// MaxPartitions and MaxShards bound what can be asked for.
	MaxPartitions = 256
	MaxShards     = 256
)

// What a generated topology has beyond that.
const (
	ackWait         = 15 * time.Second
	pinnedTTL       = 10 * time.Second
	shardPending    = 10_000
	mirrorPending   = MinMirrorPending
	mirrorHeartbeat = time.Second
	bucketBytes     = 64 << 20
	// markerLife is how long a marker of a key that is gone stays; with it single
	// keys may have a TTL.
	markerLife = time.Second
	// maxPerSubject bounds the chunks of one table that wait.
	maxPerSubject = 1_000_000
)

// Plan is the measure of a topology.
type Plan struct {
	Names
	Partitions, Shards int
	// Replicas of every stream.
	Replicas int
	// FileStore is what each server may store, in bytes; the streams together stay
	// within 95% of it where there are no more servers than replicas.
	FileStore int64
	// IDsBytes is what the bucket of ids may hold, in bytes; it is taken from
	// FileStore where there is such a bucket.
	IDsBytes int64
	// HistoryAge is how long a history keeps chunks: the longest gap window.
	HistoryAge time.Duration
	// DuplicateWindow is how long a partition knows a message by its id.
	DuplicateWindow time.Duration
}

// Default is the plan of a cluster that nothing is known of.
func Default() Plan {
	return Plan{
		Names: Names{Prefix: "wh", Bucket: "wh_coord"}, Partitions: 4, Shards: 8, Replicas: 3,
		FileStore: 100 << 30, IDsBytes: 20 << 30, HistoryAge: time.Hour, DuplicateWindow: 2 * time.Minute,
	}
}

// minStream is the least that is planned for a stream, in bytes.
const minStream = 8 << 20

// Check reports all that is wrong with a plan.
func (p Plan) Check() error {
	var errs []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	name := regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	fault(!name.MatchString(p.Prefix), "prefix %q: want 1 to 64 letters, digits, _ and -", p.Prefix)
	fault(!name.MatchString(p.Bucket), "bucket %q: want 1 to 64 letters, digits, _ and -", p.Bucket)
	fault(p.IDs != "" && !name.MatchString(p.IDs), "bucket of ids %q: want 1 to 64 letters, digits, _ and -", p.IDs)
	fault(p.IDs != "" && p.IDs == p.Bucket, "bucket of ids %q: it is the bucket of leases", p.IDs)
	fault(p.IDs != "" && p.IDsBytes < minStream, "bucket of ids of %d bytes: want %d or more", p.IDsBytes, minStream)
	fault(p.Partitions < 1 || p.Partitions > MaxPartitions, "partitions %d: want 1 to %d", p.Partitions, MaxPartitions)
	fault(p.Shards < 1 || p.Shards > MaxShards, "shards %d: want 1 to %d", p.Shards, MaxShards)
	fault(p.Replicas != 1 && p.Replicas != 3 && p.Replicas != 5, "replicas %d: want 1, 3 or 5", p.Replicas)
	fault(p.HistoryAge < time.Minute, "history age %s: want a minute or more", p.HistoryAge)
	fault(p.DuplicateWindow < time.Second, "duplicate window %s: want a second or more", p.DuplicateWindow)
	if len(errs) == 0 {
		least := bucketBytes + p.idsBytes() + int64(2*p.Partitions+1)*minStream
		fault(p.FileStore/100*95 < least, "file store of %d bytes: %d partitions want %d or more", p.FileStore, p.Partitions, least*100/95+1)
	}
	return errors.Join(errs...)
}

func (p Plan) idsBytes() int64 {
	if p.IDs == "" {
		return 0
	}
	return p.IDsBytes
}

// Topology is everything that the operator makes.
type Topology struct {
	Names
	Partitions  []Partition
	DeadLetters jetstream.StreamConfig
	// Buckets are that of leases and, where ids are kept here, theirs.
	Buckets []jetstream.KeyValueConfig
}

// Partition is one part of the queue and its history. The durables belong to
// Stream. Mirror is made after them, since what no durable covers is gone at once.
type Partition struct {
	Stream  jetstream.StreamConfig
	Shards  []jetstream.ConsumerConfig
	History jetstream.ConsumerConfig
	Mirror  jetstream.StreamConfig
}

// Of makes the topology of a plan that Check found nothing wrong with.
func Of(p Plan) Topology {
	// A tenth is the dead letters'. Half of the rest and a little more is the
	// partitions', whose fullness refuses rows; that of a history only shortens it.
	room := p.FileStore/100*95 - bucketBytes - p.idsBytes()
	letters := room / 10
	ingest := (room - letters) * 55 / 100 / int64(p.Partitions)
	history := (room - letters) * 45 / 100 / int64(p.Partitions)
	t := Topology{
		Names: p.Names,
		DeadLetters: jetstream.StreamConfig{
			Name: p.DeadLetters(), Description: "rows that ClickHouse refuses",
			Subjects: []string{p.LettersPrefix() + ">"}, Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardOld,
			MaxBytes: letters, Storage: jetstream.FileStorage, Replicas: p.Replicas, AllowDirect: true,
			AllowAtomicPublish: true, MaxMsgs: -1, MaxMsgSize: -1, MaxConsumers: -1, Duplicates: p.DuplicateWindow,
		},
		Buckets: []jetstream.KeyValueConfig{{
			Bucket: p.Bucket, Description: "leases and membership", History: 1, MaxBytes: bucketBytes,
			Storage: jetstream.FileStorage, Replicas: p.Replicas,
		}},
	}
	if p.IDs != "" {
		t.Buckets = append(t.Buckets, jetstream.KeyValueConfig{
			Bucket: p.IDs, Description: "ids that were seen", History: 1, MaxBytes: p.IDsBytes,
			Storage: jetstream.FileStorage, Replicas: p.Replicas, LimitMarkerTTL: markerLife,
		})
	}
	for i := range p.Partitions {
		t.Partitions = append(t.Partitions, p.partition(i, ingest, history))
	}
	return t
}

func (p Plan) partition(i int, ingest, history int64) Partition {
	made := Partition{
		Stream: jetstream.StreamConfig{
			Name: p.Ingest(i), Description: "rows that wait to be inserted",
			Subjects: []string{p.PartitionSubjects(i)}, Retention: jetstream.InterestPolicy, Discard: jetstream.DiscardNew,
			DiscardNewPerSubject: true, MaxMsgsPerSubject: maxPerSubject, MaxBytes: ingest, Storage: jetstream.FileStorage,
			Replicas: p.Replicas, AllowDirect: true, Duplicates: p.DuplicateWindow, MaxMsgs: -1, MaxMsgSize: -1, MaxConsumers: -1,
		},
		History: jetstream.ConsumerConfig{
			Durable: p.Mirror(), Description: "what " + p.History(i) + " reads through",
			DeliverSubject: p.MirrorSubject(i), AckPolicy: jetstream.AckFlowControlPolicy, MaxAckPending: mirrorPending,
			FlowControl: true, IdleHeartbeat: mirrorHeartbeat, Replicas: p.Replicas,
		},
		Mirror: jetstream.StreamConfig{
			Name: p.History(i), Description: "rows that streams may ask for again",
			Mirror: &jetstream.StreamSource{
				Name:     p.Ingest(i),
				Consumer: &jetstream.StreamConsumerSource{Name: p.Mirror(), DeliverSubject: p.MirrorSubject(i)},
			},
			Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardOld, MaxAge: p.HistoryAge, MaxBytes: history,
			Storage: jetstream.FileStorage, Replicas: p.Replicas, AllowDirect: true, MirrorDirect: true,
			MaxMsgs: -1, MaxMsgSize: -1, MaxConsumers: -1,
		},
	}
	for s := range p.Shards {
		made.Shards = append(made.Shards, jetstream.ConsumerConfig{
			Durable: p.Shard(s), Description: "shard " + p.ShardSubjects(i, s),
			FilterSubject: p.ShardSubjects(i, s), AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait,
			MaxDeliver: -1, MaxAckPending: shardPending, Replicas: p.Replicas,
			PriorityPolicy: jetstream.PriorityPolicyPinned, PriorityGroups: []string{Group}, PinnedTTL: pinnedTTL,
		})
	}
	return made
}
