// Package topology describes what WaveHouse needs of an operator's NATS cluster,
// as data: partition streams with a durable for each shard, a history that mirrors
// each of them, a stream of dead letters and a bucket. Whoever verifies, prints or
// makes it reads the same description.
package topology

import (
	"strconv"
	"strings"
)

// Names are what the parts are called.
type Names struct {
	// Prefix is what subjects and durables begin with, and streams in capitals.
	Prefix string
	// Bucket is the KV bucket of leases and membership.
	Bucket string
	// IDs is the KV bucket of seen ids, where dedupe.backend is nats; else empty.
	IDs string
}

// Group is the priority group of every shard's durable: of those who pull in it
// one is pinned.
const Group = "wavehouse"

// Ingest is the stream of a partition.
func (n Names) Ingest(partition int) string {
	return strings.ToUpper(n.Prefix) + "_INGEST_" + strconv.Itoa(partition)
}

// History is the stream that mirrors a partition.
func (n Names) History(partition int) string {
	return strings.ToUpper(n.Prefix) + "_HISTORY_" + strconv.Itoa(partition)
}

// DeadLetters is the stream of the dead letters of all tenants.
func (n Names) DeadLetters() string { return strings.ToUpper(n.Prefix) + "_DLQ" }

// BucketStream is the stream under the bucket of leases.
func (n Names) BucketStream() string { return "KV_" + n.Bucket }

// IDsStream is the stream under the bucket of ids.
func (n Names) IDsStream() string { return "KV_" + n.IDs }

// Shard is a shard's durable, the same in every partition.
func (n Names) Shard(shard int) string { return n.Prefix + "-ingest-" + strconv.Itoa(shard) }

// Mirror is the durable that a partition's history reads it through.
func (n Names) Mirror() string { return n.Prefix + "-history" }

// PartitionSubjects is what a partition holds.
func (n Names) PartitionSubjects(partition int) string { return n.partition(partition) + ">" }

// ShardSubjects is what a shard of a partition covers.
func (n Names) ShardSubjects(partition, shard int) string {
	return n.ShardPrefix(partition, shard) + ">"
}

// ShardPrefix is what the subjects of a shard's topics begin with; it ends with a
// dot, and tenant and table follow.
func (n Names) ShardPrefix(partition, shard int) string {
	return n.partition(partition) + strconv.Itoa(shard) + "."
}

// AnyShardPrefix is what the subjects of a partition's topics begin with, whichever
// shard they were in when they were published; it ends with a dot.
func (n Names) AnyShardPrefix(partition int) string { return n.partition(partition) + "*." }

func (n Names) partition(p int) string { return n.Prefix + ".ingest." + strconv.Itoa(p) + "." }

// MirrorSubject is where the durable of a partition's history delivers to.
func (n Names) MirrorSubject(partition int) string {
	return n.Prefix + ".mirror." + strconv.Itoa(partition)
}

// LettersPrefix is what the subjects of dead letters begin with; it ends with a
// dot, and tenant and table follow.
func (n Names) LettersPrefix() string { return n.Prefix + ".dlq." }

// Notices is what the subjects of notices begin with; it ends with a dot.
func (n Names) Notices() string { return n.Prefix + ".notice." }
