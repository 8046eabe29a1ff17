package dynamo

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	lapsed   prometheus.Counter
	requests *prometheus.CounterVec
	retries  *prometheus.CounterVec
	units    *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer, s *Store) *metrics {
	s.table.Meter(reg, "everything about the DynamoDB table is as it should be, TTL included")
	auto := promauto.With(reg)
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "wavehouse_dedupe_clock_offset_seconds", Help: "How much later it is at DynamoDB than on this machine, where that is more than two seconds.",
	}, func() float64 { return float64(s.clock.offset.Load()) / 1e9 })
	return &metrics{
		lapsed: auto.NewCounter(prometheus.CounterOpts{
			Name: "wavehouse_dedupe_lapsed_claims_total", Help: "Reservations of ids that lapsed, the fate of their record unknown, and were reserved anew.",
		}),
		requests: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "wavehouse_dedupe_dynamodb_requests_total", Help: "Requests to DynamoDB, by operation and how they ended: ok, conflict (the condition did not hold), throttled, timeout, denied or error.",
		}, []string{"operation", "outcome"}),
		retries: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "wavehouse_dedupe_dynamodb_retries_total", Help: "Attempts of requests to DynamoDB that failed and were made again, by how they ended, and items of a batch that it did not process.",
		}, []string{"outcome"}),
		units: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "wavehouse_dedupe_dynamodb_units_total", Help: "Capacity units that DynamoDB counted, by kind: write or read. Claims that meet a condition that does not hold are not told of.",
		}, []string{"kind"}),
	}
}

func (m *metrics) request(operation string, err error) {
	m.requests.WithLabelValues(operation, outcome(err)).Inc()
}

func (m *metrics) wrote(c *types.ConsumedCapacity) { m.consumed("write", c) }
func (m *metrics) read(c *types.ConsumedCapacity)  { m.consumed("read", c) }

func (m *metrics) consumed(kind string, c *types.ConsumedCapacity) {
	if c != nil && c.CapacityUnits != nil {
		m.units.WithLabelValues(kind).Add(*c.CapacityUnits)
	}
}
