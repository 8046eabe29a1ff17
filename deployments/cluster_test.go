package deployments

import (
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/config"
	"github.com/wavehouse/wavehouse/internal/mq/nats/topology"
)

// pods are the objects of a file, by kind.
func pods(t *testing.T, file string) map[string]object {
	t.Helper()
	all := map[string]object{}
	for _, doc := range documents(t, "kubernetes-cluster/"+file) {
		all[doc["kind"].(string)] = doc
	}
	return all
}

// load is the boot configuration of variables, which must start.
func load(t *testing.T, variables map[string]string) *config.Config {
	t.Helper()
	env := []string{"WH_SETTINGS_DIR=/settings", "WH_CONFIG=" + filepath.Join(t.TempDir(), "none.yaml")}
	for name, value := range variables {
		env = append(env, name+"="+value)
	}
	c, _, err := config.Load(env, nil)
	require.NoError(t, err)
	return c
}

// The pods of a cluster roll over one by one, spread over nodes, and have the time to
// stop.
func TestThePodsOfACluster(t *testing.T) {
	shared := map[string]string{}
	for name, value := range only(t, "kubernetes-cluster/config.yaml")["data"].(object) {
		shared[name] = value.(string)
	}
	for file, port := range map[string]string{"api.yaml": "http", "ingest.yaml": "ops"} {
		all := pods(t, file)
		set := dig(all["Deployment"], "spec")
		assert.GreaterOrEqual(t, set["replicas"], 2, file)
		rolling := dig(set, "strategy", "rollingUpdate")
		assert.Equal(t, 0, rolling["maxUnavailable"], file)
		spec := dig(set, "template", "spec")
		assert.NotEmpty(t, spec["topologySpreadConstraints"], file)
		assert.Equal(t, 1, dig(all["PodDisruptionBudget"], "spec")["maxUnavailable"], file)
		assert.Equal(t, dig(set, "selector"), dig(all["PodDisruptionBudget"], "spec", "selector"), file)
		container := spec["containers"].([]any)[0].(object)
		for probe, path := range map[string]string{"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"} {
			assert.Equal(t, path, dig(container, probe, "httpGet")["path"], file)
			assert.Equal(t, port, dig(container, probe, "httpGet")["port"], file)
		}
		const shutdown, stores, telemetry = 10, 5, 3
		pause := dig(container, "lifecycle", "preStop", "sleep")["seconds"].(int)
		assert.Greater(t, spec["terminationGracePeriodSeconds"], pause+shutdown+stores+telemetry, file)

		variables := map[string]string{"WH_STREAM_ID_KEY": "0123456789abcdef0123456789abcdef"}
		for name, value := range shared {
			variables[name] = value
		}
		for _, v := range container["env"].([]any) {
			if value, ok := v.(object)["value"]; ok {
				variables[v.(object)["name"].(string)] = value.(string)
			}
		}
		c := load(t, variables)
		plan := topology.Default()
		assert.Equal(t, []int{plan.Partitions, plan.Shards}, []int{c.MQ.NATS.Partitions, c.MQ.NATS.Shards}, "as deployments/nats")
	}
}

func TestTheClusterOfComposeStarts(t *testing.T) {
	services := only(t, "compose.cluster.yaml")["services"].(object)
	for n := range 3 {
		service := services["wavehouse-"+strconv.Itoa(n)].(object)
		variables := map[string]string{}
		for name, value := range service["environment"].(object) {
			if len(name) > 3 && name[:3] == "WH_" {
				variables[name] = value.(string)
			}
		}
		variables["WH_STREAM_ID_KEY"] = "0123456789abcdef0123456789abcdef" // of compose's own syntax
		load(t, variables)
	}
	for _, file := range []string{"compose/nats.conf", "compose/nginx.conf"} {
		assert.FileExists(t, file)
	}
}
