// Package cluster runs several WaveHouse processes on a real NATS cluster, as many
// machines do.
package cluster

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq/nats/topology"
	"github.com/wavehouse/wavehouse/internal/mq/natstest"
	"github.com/wavehouse/wavehouse/tests/harness"
)

// binaries are built once for the whole package.
var binaries harness.Binaries

func TestMain(m *testing.M) {
	code := m.Run()
	binaries.Remove()
	os.Exit(code)
}

// patience bounds the wait for what comes.
const patience = 2 * time.Minute

// service is a NATS cluster, a ClickHouse and processes on both.
type service struct {
	t          *testing.T
	nats       *natstest.Cluster
	clickhouse *harness.ClickHouse
	plan       topology.Plan
	config     map[string]string
	// bin is the folder of the processes that start.
	bin string
}

// start makes a service without processes; config holds sections of config.json.
func start(t *testing.T, nodes int, config map[string]string) *service {
	t.Helper()
	s := &service{
		t: t, nats: natstest.Start(t, natstest.Options{Nodes: nodes}), clickhouse: harness.StartClickHouse(t, binaries.Dir(t)),
		plan: topology.Default(), config: config, bin: binaries.Dir(t),
	}
	s.plan.Partitions, s.plan.Shards, s.plan.Replicas, s.plan.FileStore = 2, 4, nodes, 4<<30
	require.NoError(t, topology.Apply(t.Context(), s.nats.JetStream(t), topology.Of(s.plan)))
	return s
}

// process runs one with roles; its instance_id is name.
func (s *service) process(name, roles string) *harness.Server {
	s.t.Helper()
	return s.processBy(strings.Join(s.nats.URLs(), ","), name, roles)
}

// processBy runs one that reaches NATS by other URLs.
func (s *service) processBy(urls, name, roles string) *harness.Server {
	s.t.Helper()
	return harness.StartServer(s.t, harness.ServerOptions{
		Bin: s.bin, ClickHouse: s.clickhouse, Config: s.config, Env: []string{
			"WH_INSTANCE_ID=" + name, "WH_ROLES=" + roles, "WH_MQ_BACKEND=nats", "WH_MQ_NATS_URLS=" + urls,
			fmt.Sprint("WH_MQ_NATS_PARTITIONS=", s.plan.Partitions), fmt.Sprint("WH_MQ_NATS_SHARDS=", s.plan.Shards),
			"WH_COORD_BACKEND=nats", "WH_DEDUPE_PEBBLE_SINGLE_REPLICA=true", "WH_STREAM_ID_KEY=0123456789abcdef0123456789abcdef",
			"WH_SERVER_SHUTDOWN_TIMEOUT=10s",
		},
	})
}

// process of a fleet, as /v1/ops/fleet shows it.
type member struct {
	Instance, Generation string
	Roles, Shards        []string
	Lagging, Silent      bool
}

type fleet struct {
	Generation string
	Agreed     bool
	Processes  []member
}

func fleetOf(t *testing.T, p *harness.Server) (f fleet) {
	t.Helper()
	a := p.Ops(t, http.MethodGet, "/v1/ops/fleet", "")
	require.Equal(t, http.StatusOK, a.Status, a.Body)
	a.JSON(t, &f)
	return f
}

// awaitFleet waits until the process knows so many, who serve the same settings.
func awaitFleet(t *testing.T, p *harness.Server, n int) {
	t.Helper()
	harness.Eventually(t, patience, func() error {
		if f := fleetOf(t, p); !f.Agreed || len(f.Processes) != n {
			return fmt.Errorf("%+v", f)
		}
		return nil
	})
}

// awaitShards waits until the processes named, and no others, have all shards.
func (s *service) awaitShards(p *harness.Server, names ...string) {
	s.t.Helper()
	harness.Eventually(s.t, patience, func() error {
		has, all := map[string]int{}, 0
		for _, m := range fleetOf(s.t, p).Processes {
			if len(m.Shards) > 0 && !m.Silent {
				has[m.Instance] = len(m.Shards)
				all += len(m.Shards)
			}
		}
		if len(has) != len(names) || all != s.plan.Partitions*s.plan.Shards {
			return fmt.Errorf("shards are %v", has)
		}
		for _, name := range names {
			if has[name] == 0 {
				return fmt.Errorf("%s has no shard: %v", name, has)
			}
		}
		return nil
	})
}
