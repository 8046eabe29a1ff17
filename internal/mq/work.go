package mq

import (
	"context"
	"time"
)

// Shard is a part of the queue, any topics. Its chunks come to one process at
// a time: to this one from when the shard is assigned until it is revoked.
type Shard struct {
	// Name says which part, the same in every process.
	Name string
	// Term tells assignments of the same shard apart.
	Term uint64
}

// Work is what a consumer does with chunks. All three are required.
type Work struct {
	// Assigned tells of a shard before anything of it is delivered. It must
	// not block.
	Assigned func(Shard)
	// Deliver hands over a chunk. Calls for one shard do not overlap; one that
	// blocks delays its shard alone. Chunks of a topic come in their order,
	// but for those that come again.
	Deliver func(Delivery)
	// Revoked tells that a shard is lost, or about to be. Nothing more of it
	// is delivered; a Deliver of it that blocks must return, with its delivery
	// acknowledged or handed back. It returns when that is so of every earlier
	// delivery of the shard, which keeps two processes from writing the same
	// rows. A shard that stays until the end is never revoked.
	Revoked func(Shard)
}

// Delivery is one chunk handed to the worker. Exactly one of Ack and Nak ends
// it; until then the queue keeps the chunk. A delivery that is neither
// acknowledged nor extended for the queue's ack wait is delivered again, as is
// what was not acknowledged before a restart or by the shard's former holder.
//
// A stored message that is not a chunk comes as a Chunk whose Version is ""
// and whose Body is the message's, so that it can be parked and never blocks
// the queue.
type Delivery interface {
	Chunk() Chunk
	Position() Position
	Shard() Shard
	// Nak hands the chunk back; it is delivered again after delay, to whoever
	// then has the shard.
	Nak(delay time.Duration) error
	// Extend restarts the ack wait.
	Extend() error
}

// Consumption is a running delivery.
type Consumption interface {
	// Ack ends deliveries of this consumption. When it returns nil they are
	// not delivered again, even if the process is killed at once; only a
	// failover within the queue may bring the newest of them back, under the
	// same position. It wraps ErrRevoked for a shard that is lost.
	Ack(ds ...Delivery) error
	// Shard returns the shard of a topic; ok is false when another process has
	// it.
	Shard(t Topic) (s Shard, ok bool)
	// Stop ends delivery: no call of Deliver starts after it returns, and
	// those running have returned. Deliveries may still be acknowledged
	// afterwards.
	Stop(ctx context.Context) error
	// Failed yields one error if delivery ends on its own for good, and never
	// one after Stop. What heals, or the loss of a shard, is no failure. It is
	// not closed.
	Failed() <-chan error
}

// Passer is what a Consumption may be besides: one that passes chunks by whose table
// has much that is delivered and not ended, and delivers them later.
type Passer interface {
	// Passed reports whether chunks of the topic were passed by, so that there may
	// be some before the newest that was delivered of its shard.
	Passed(t Topic) bool
}

// Consumer hands chunks to a worker.
type Consumer interface {
	// Consume delivers every stored chunk of this process's shards, those of
	// topics that come later included. What is delivered and not ended is
	// bounded by the worker, which blocks; what is read ahead of it, by the
	// queue.
	Consume(ctx context.Context, w Work) (Consumption, error)
	// AckWait is how long a delivery may stay unanswered. Whoever extends does
	// so a few times in it.
	AckWait() time.Duration
}
