package insert

import (
	"maps"
	"slices"
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// assigned begins a shard of the queue.
func (w *Worker) assigned(s mq.Shard) {
	resumed := w.resume(s)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shards[s] = struct{}{}
	maps.Copy(w.resumed, resumed)
}

// revoked lets go of all that is held of a shard. What is being inserted is
// waited for; the rest is handed back. A chunk that is written in part is then
// written again by whoever gets it, as after a crash.
func (w *Worker) revoked(s mq.Shard) {
	w.mu.Lock()
	delete(w.shards, s)
	delete(w.progress.delivered, s)
	lost := map[mq.Topic]*batcher{}
	for _, c := range w.held {
		if b := w.batchers[c.topic]; b != nil && c.delivery.Shard() == s {
			lost[c.topic] = b
		}
	}
	for topic, b := range lost {
		delete(w.batchers, topic)
		b.lost = true
		b.stop()
	}
	chunks := map[mq.Topic][]*held{}
	for topic, b := range lost {
		for b.writing || b.admitting > 0 {
			w.left.Wait()
		}
		b.disarm()
		chunks[topic] = nil
	}
	for _, c := range w.held {
		if _, ok := chunks[c.topic]; ok {
			chunks[c.topic] = append(chunks[c.topic], c)
		}
	}
	w.mu.Unlock()
	for topic, held := range chunks {
		w.handBack(lost[topic], 0, held...)
	}
	w.o.Logger.Info("let go of a shard of the queue", "shard", s.Name, "tables", len(lost))
}

// refuse hands back what came for a shard that is lost.
func (w *Worker) refuse(d mq.Delivery) {
	if err := d.Nak(0); err != nil {
		w.o.Logger.Debug("cannot hand back a chunk of a shard that is lost", "shard", d.Shard().Name, "error", err)
	}
}

// extendEvery is how often what is held is extended.
func (w *Worker) extendEvery() time.Duration { return w.o.Broker.AckWait() / 3 }

// Shards names the shards of the queue that this worker has, sorted.
func (w *Worker) Shards() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := make([]string, 0, len(w.shards))
	for s := range w.shards {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return names
}
