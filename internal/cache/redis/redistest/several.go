package redistest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// Trio is a primary with two replicas, watched by three sentinels.
type Trio struct {
	Servers   [3]*Server // the first was made the primary
	Sentinels [3]*Server
}

// MasterName is what the sentinels call the primary.
const MasterName = "cache"

// StartTrio starts a trio and waits until all know each other.
func StartTrio(t testing.TB, flavor Flavor, args ...string) *Trio {
	t.Helper()
	trio := &Trio{}
	for i := range trio.Servers {
		own := append([]string{"--save", "", "--repl-diskless-sync-delay", "0", "--repl-timeout", "5"}, args...)
		if i > 0 {
			own = append(own, "--replicaof", "127.0.0.1 "+strconv.Itoa(trio.Servers[0].Port))
		}
		trio.Servers[i] = Start(t, flavor, own...)
	}
	for i := range trio.Sentinels {
		trio.Sentinels[i] = startSentinel(t, flavor, trio.Servers[0].Port)
	}
	await(t, "replicas in touch", func() bool {
		return trio.Servers[0].Info(t, "replication", "connected_slaves") == "2" &&
			trio.Servers[1].Info(t, "replication", "master_link_status") == "up" &&
			trio.Servers[2].Info(t, "replication", "master_link_status") == "up"
	})
	for _, s := range trio.Sentinels {
		await(t, "sentinels that know each other", func() bool {
			return s.Info(t, "sentinel", "master0") == fmt.Sprintf(
				"name=%s,status=ok,address=%s,slaves=2,sentinels=3", MasterName, trio.Servers[0].Addr())
		})
	}
	return trio
}

func startSentinel(t testing.TB, flavor Flavor, primary int) *Server {
	t.Helper()
	s := newServer(t, flavor)
	file := filepath.Join(s.Dir, "sentinel.conf")
	text := fmt.Sprintf(`port %d
bind 127.0.0.1
dir %q
logfile %q
sentinel monitor %s 127.0.0.1 %d 2
sentinel down-after-milliseconds %s 1000
sentinel failover-timeout %s 5000
sentinel parallel-syncs %s 2
`, s.Port, s.Dir, s.LogFile(), MasterName, primary, MasterName, MasterName, MasterName)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.args = []string{file, "--sentinel"}
	s.Start(t)
	return s
}

// Addrs are those of the sentinels.
func (t *Trio) Addrs() []string { return addrs(t.Sentinels[:]) }

// Steady has the sentinels take no server for dead that is only slow, for tests that
// are not about failovers.
func (t *Trio) Steady(tb testing.TB) {
	tb.Helper()
	for _, s := range t.Sentinels {
		s.Do(tb, "SENTINEL", "SET", MasterName, "down-after-milliseconds", 600_000)
	}
}

// Primary is the server that the sentinels name.
func (t *Trio) Primary(tb testing.TB) *Server {
	tb.Helper()
	answer, _ := t.Sentinels[0].Do(tb, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName).([]any)
	for _, s := range t.Servers {
		if len(answer) == 2 && answer[1] == strconv.Itoa(s.Port) {
			return s
		}
	}
	tb.Fatalf("the sentinels name %v", answer)
	return nil
}

// AwaitFailover waits until another server than before is the primary.
func (t *Trio) AwaitFailover(tb testing.TB, before *Server) *Server {
	tb.Helper()
	await(tb, "another primary", func() bool { return t.Primary(tb) != before })
	now := t.Primary(tb)
	await(tb, "the primary's role", func() bool { return now.Info(tb, "replication", "role") == "master" })
	return now
}

// Six is a cluster of three primaries, the first three, and their replicas.
type Six struct{ Nodes [6]*Server }

// slots is how many slots a cluster has.
const slots = 16384

// StartSix starts a cluster and waits until it serves every slot.
func StartSix(t testing.TB, flavor Flavor, args ...string) *Six {
	t.Helper()
	six := &Six{}
	for i := range six.Nodes {
		six.Nodes[i] = Start(t, flavor, append([]string{
			"--save", "", "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(FreePort(t)),
			"--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0",
		}, args...)...)
	}
	for i, n := range six.Nodes {
		n.Do(t, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		if i < 3 {
			n.Do(t, "CLUSTER", "ADDSLOTSRANGE", i*slots/3, (i+1)*slots/3-1)
		}
	}
	bus := func(n *Server) string {
		for i, arg := range n.args {
			if arg == "--cluster-port" {
				return n.args[i+1]
			}
		}
		return ""
	}
	for _, n := range six.Nodes[1:] {
		six.Nodes[0].Do(t, "CLUSTER", "MEET", "127.0.0.1", n.Port, bus(n))
	}
	for _, n := range six.Nodes {
		await(t, "nodes that know each other", func() bool { return n.Info(t, "cluster", "cluster_enabled") == "1" && n.known(t) == 6 })
	}
	for i, n := range six.Nodes[3:] {
		id, _ := six.Nodes[i].Do(t, "CLUSTER", "MYID").(string)
		await(t, "a replica", func() bool {
			return n.client.ClusterReplicate(context.Background(), id).Err() == nil
		})
	}
	for i, n := range six.Nodes {
		await(t, "a cluster that serves", func() bool {
			return n.clusterInfo(t, "cluster_state") == "ok" && (i < 3 || n.Info(t, "replication", "master_link_status") == "up")
		})
	}
	return six
}

func (s *Server) known(t testing.TB) int {
	n, _ := strconv.Atoi(s.clusterInfo(t, "cluster_known_nodes"))
	return n
}

func (s *Server) clusterInfo(t testing.TB, field string) string {
	t.Helper()
	text, _ := s.Do(t, "CLUSTER", "INFO").(string)
	return fieldOf(text, field)
}

// Addrs are those of the nodes.
func (s *Six) Addrs() []string { return addrs(s.Nodes[:]) }

// Steady has the nodes take none for dead that is only slow, for tests that are not
// about failovers.
func (s *Six) Steady(t testing.TB) {
	t.Helper()
	for _, n := range s.Nodes {
		n.Do(t, "CONFIG", "SET", "cluster-node-timeout", 600_000)
	}
}

// Owner is the primary of a key, as a node says that is not one of those that hang.
func (s *Six) Owner(t testing.TB, key string, hang ...*Server) *Server {
	t.Helper()
	for _, n := range s.Nodes {
		if slices.Contains(hang, n) {
			continue
		}
		slot, err := n.client.ClusterKeySlot(context.Background(), key).Result()
		if err != nil {
			continue
		}
		answer, err := n.client.Do(context.Background(), "CLUSTER", "SLOTS").Slice()
		if err != nil {
			continue
		}
		for _, r := range answer {
			shard, _ := r.([]any)
			if len(shard) < 3 {
				continue
			}
			first, _ := shard[0].(int64)
			last, _ := shard[1].(int64)
			if slot < first || slot > last {
				continue
			}
			owner, _ := shard[2].([]any)
			for _, s := range s.Nodes {
				if len(owner) > 1 && owner[1] == int64(s.Port) {
					return s
				}
			}
		}
	}
	t.Fatalf("nobody owns the slot of %q", key)
	return nil
}

// Move moves the slot of a key, with what is in it, from one primary to another.
func (s *Six) Move(t testing.TB, key string, from, to *Server) {
	t.Helper()
	slot := from.Do(t, "CLUSTER", "KEYSLOT", key)
	source, target := from.Do(t, "CLUSTER", "MYID"), to.Do(t, "CLUSTER", "MYID")
	to.Do(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", source)
	from.Do(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", target)
	for {
		keys, _ := from.Do(t, "CLUSTER", "GETKEYSINSLOT", slot, 10).([]any)
		if len(keys) == 0 {
			break
		}
		for _, k := range keys {
			from.Do(t, "MIGRATE", "127.0.0.1", to.Port, k, 0, 5000, "REPLACE")
		}
	}
	for _, n := range []*Server{to, from, s.Nodes[0], s.Nodes[1], s.Nodes[2]} {
		n.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", target)
	}
}

func addrs(servers []*Server) (all []string) {
	for _, s := range servers {
		all = append(all, s.Addr())
	}
	return all
}
