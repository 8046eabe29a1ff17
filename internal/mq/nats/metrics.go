package nats

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
)

// metrics are the broker's counters, and a collector of how it stands.
type metrics struct {
	*jetstream.Metrics
	handovers prometheus.Counter
}

func newMetrics(b *Broker, reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		Metrics:   jetstream.NewMetrics(),
		handovers: jetstream.Counters("handovers_total", "Shards that this process handed over to another.").WithLabelValues(),
	}
	return m, m.Register(reg, m.handovers, newStanding(b))
}

// standing is how the broker stands when it is scraped. It asks nobody.
type standing struct {
	b                                                          *Broker
	connected, ok, behind, owned, members, unowned, held, bare *prometheus.Desc
}

func newStanding(b *Broker) *standing {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("wavehouse_mq_"+name, help, labels, nil)
	}
	return &standing{
		b:         b,
		connected: desc("connected", "1 while connected to the NATS cluster."),
		ok:        desc("topology_ok", "1 while the cluster's streams and durables are as they must be."),
		behind:    desc("history_behind_seconds", "For how long a partition's history has lacked what the partition holds.", "partition"),
		owned:     desc("shards_owned", "Shards whose chunks this process writes."),
		members:   desc("members", "Processes that share the shards, as this one knows; 0 while it is none of them."),
		unowned:   desc("shards_unowned", "Shards that no process is known to own; not known to a process without the ingest role."),
		held:      desc("chunks_held", "Chunks that were delivered to this process and are not ended."),
		bare:      desc("shards_uncovered", "Shards without a durable: publishing to them is refused."),
	}
}

// Describe implements prometheus.Collector.
func (s *standing) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.connected, s.ok, s.behind, s.owned, s.members, s.unowned, s.held, s.bare} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s *standing) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	truth := map[bool]float64{true: 1}
	gauge(s.connected, truth[s.b.pub.IsConnected() && s.b.api.IsConnected()])
	gauge(s.ok, truth[s.b.watch.ok.Load()])
	bare := 0
	for n, p := range s.b.parts {
		gauge(s.behind, time.Duration(p.behind.Load()).Seconds(), strconv.Itoa(n))
		for shard := range s.b.o.Shards {
			if !p.covers(shard) {
				bare++
			}
		}
	}
	gauge(s.bare, float64(bare))
	s.b.mu.Lock()
	c := s.b.consumer
	s.b.mu.Unlock()
	if c == nil {
		return
	}
	owned, members, held := c.counts()
	gauge(s.owned, float64(owned))
	gauge(s.members, float64(members))
	gauge(s.held, float64(held))
	if members == 0 { // whom the others know is not known
		gauge(s.unowned, float64(len(places(s.b.o.Partitions, s.b.o.Shards))))
	} else {
		gauge(s.unowned, 0)
	}
}
