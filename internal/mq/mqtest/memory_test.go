package mqtest

import (
	"testing"
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
)

func TestMemory(t *testing.T) {
	Run(t, func(_ *testing.T, ackWait time.Duration) Store {
		m := NewMemory(ackWait)
		return Store{
			Open: func(*testing.T) mq.Broker { return m.Open() },
			Raw: func(_ *testing.T, b mq.Broker, topic mq.Topic, body []byte) {
				b.(*MemoryBroker).store(mq.Chunk{Topic: topic, Body: body}, true)
			},
			Failover: func(_ *testing.T, b mq.Broker) { b.(*MemoryBroker).Failover() },
			Revoke:   func(_ *testing.T, b mq.Broker, s mq.Shard) { b.(*MemoryBroker).Revoke(s) },
			Hole: func(_ *testing.T, b mq.Broker, topic mq.Topic) {
				b.(*MemoryBroker).Missed(Chunk(topic.Tenant, topic.Table, "missed"))
			},
		}
	}, Capabilities{AckWaitRedelivers: true, Failover: true, Revokes: true, Holes: true, Raw: true}, 12)
}
