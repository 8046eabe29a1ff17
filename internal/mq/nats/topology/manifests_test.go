package topology_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/wavehouse/wavehouse/internal/mq/nats/topology"
	"github.com/wavehouse/wavehouse/internal/mq/natstest"
)

// runScript runs the script with the nats command line of TestMain.
func runScript(t *testing.T, script, url string) (string, error) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	tools := t.TempDir()
	require.NoError(t, os.Symlink(self, filepath.Join(tools, "nats")))
	cmd := exec.CommandContext(t.Context(), "sh")
	cmd.Stdin = strings.NewReader(script)
	cmd.Env = append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"), "NATS_URL="+url)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// The script makes a cluster that the verification finds nothing wrong with, again
// and again, and changes nothing that an operator made otherwise.
func TestTheScriptMakesWhatIsVerified(t *testing.T) {
	t.Parallel()
	cluster := natstest.Start(t, natstest.Options{})
	js := cluster.JetStream(t)
	plan := small()
	all := topology.Of(plan)
	for range 2 {
		out, err := runScript(t, all.Script(), cluster.Nodes[0].URL())
		require.NoError(t, err, out)
	}
	wanted := topology.Wanted{
		Names: plan.Names, Partitions: plan.Partitions, Shards: plan.Shards, DuplicateWindow: time.Minute,
		HistoryAge: plan.HistoryAge, MaxMessage: 1 << 20, AckWait: 0,
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		report, err := topology.Verify(context.Background(), js, wanted)
		require.NoError(c, err)
		for _, f := range report.Findings {
			assert.Contains(c, f.What, "num_replicas is 1", f.String())
		}
	}, 30*time.Second, 100*time.Millisecond)

	changed := plan
	changed.HistoryAge = 2 * time.Hour
	out, err := runScript(t, topology.Of(changed).Script(), cluster.Nodes[0].URL())
	require.Error(t, err, out)
	assert.Contains(t, out, "STREAM.CREATE.WH_HISTORY_0")
	history, err := js.Stream(t.Context(), "WH_HISTORY_0")
	require.NoError(t, err)
	assert.Equal(t, plan.HistoryAge, history.CachedInfo().Config.MaxAge)
}

// What the Kubernetes resources say of a stream is what the script makes of it.
func TestTheResourcesAndTheScriptAgree(t *testing.T) {
	t.Parallel()
	plan := topology.Default()
	plan.IDs = "wh_ids"
	all := topology.Of(plan)
	decoder := yaml.NewDecoder(strings.NewReader(all.Nack()))
	kinds := map[string]int{}
	for {
		var r struct {
			Kind string
			Spec map[string]any
			Data map[string]string
		}
		if decoder.Decode(&r) != nil {
			break
		}
		kinds[r.Kind]++
		switch r.Kind {
		case "Stream":
			part := all.Partitions[kinds["Stream"]-1].Stream
			assert.Equal(t, part.Name, r.Spec["name"])
			assert.EqualValues(t, part.MaxBytes, r.Spec["maxBytes"])
			assert.Equal(t, jetstream.InterestPolicy, part.Retention)
			assert.Equal(t, "interest", r.Spec["retention"])
			window, err := time.ParseDuration(r.Spec["duplicateWindow"].(string))
			require.NoError(t, err)
			assert.Equal(t, part.Duplicates, window)
		case "ConfigMap":
			for _, request := range all.Requests() {
				if strings.HasSuffix(request.Subject, all.BucketStream()) {
					continue // a resource
				}
				assert.Contains(t, r.Data["make.sh"], "api '"+request.Subject+"' '"+string(request.Body)+"'")
			}
		}
	}
	assert.Equal(t, map[string]int{"Stream": 4, "KeyValue": 1, "ConfigMap": 1, "Job": 1}, kinds)
}
