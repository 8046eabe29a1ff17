package nats

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// metrics are the broker's counters, and a collector of how it stands.
type metrics struct {
	reg         prometheus.Registerer
	registered  []prometheus.Collector
	publishes   *prometheus.CounterVec
	seconds     prometheus.Histogram
	redelivered prometheus.Counter
	handovers   prometheus.Counter
	parked      *prometheus.CounterVec
	discarded   *prometheus.CounterVec
}

func newMetrics(b *Broker, reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		reg:         reg,
		publishes:   counters("publishes_total", "Chunks published, by result.", "result"),
		redelivered: counters("redeliveries_total", "Chunks delivered to the worker again.").WithLabelValues(),
		handovers:   counters("handovers_total", "Shards that this process handed over to another.").WithLabelValues(),
		parked:      counters("dead_letters_parked_total", "Rows parked as dead letters.", "tenant"),
		discarded:   counters("dead_letters_discarded_total", "Dead letters discarded on request.", "tenant"),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "wavehouse_mq_publish_seconds", Help: "How long a publish took until it was durable or refused.",
			Buckets: prometheus.ExponentialBuckets(0.00025, 2, 16),
		}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.publishes, m.seconds, m.redelivered, m.handovers, m.parked, m.discarded, newStanding(b)} {
		if err := reg.Register(c); err != nil {
			m.unregister()
			return nil, fmt.Errorf("register queue metrics: %w", err)
		}
		m.registered = append(m.registered, c)
	}
	return m, nil
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "wavehouse_mq_" + name, Help: help}, labels)
}

func (m *metrics) unregister() {
	for _, c := range m.registered {
		m.reg.Unregister(c)
	}
}

func (m *metrics) published(err error, took time.Duration) {
	m.publishes.WithLabelValues(result(err)).Inc()
	m.seconds.Observe(took.Seconds())
}

func result(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, mq.ErrFull):
		return "full"
	case errors.Is(err, mq.ErrTooLarge):
		return "too_large"
	case errors.Is(err, mq.ErrOutcomeUnknown):
		return "unknown"
	}
	return "unavailable"
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
