package nats

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	client "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq/nats/link"
	"github.com/wavehouse/wavehouse/internal/mq/nats/topology"
	"github.com/wavehouse/wavehouse/internal/mq/natstest"
)

// operator is who makes topologies on a server of restricted.
func operator() client.Option { return client.UserInfo("operator", "operator") }

// restricted is a server whose user wavehouse may do what the permissions say for
// topologies of the prefixes t1, t2, …, and nothing else, and how that user connects.
func restricted(t *testing.T, topologies int) (*natstest.Cluster, link.Options) {
	t.Helper()
	var may topology.Permissions
	for n := 1; n <= topologies; n++ {
		one := topology.PermissionsOf(topology.Of(planned(fmt.Sprint("t", n))))
		may.Publish, may.Subscribe = append(may.Publish, one.Publish...), append(may.Subscribe, one.Subscribe...)
	}
	may.Responses = true
	return serving(t, may)
}

// serving is a server whose user wavehouse has permissions, and how he connects.
func serving(t *testing.T, may topology.Permissions) (*natstest.Cluster, link.Options) {
	t.Helper()
	conf := strings.Replace(may.Conf(), "users = [\n", "users = [\n    { user: operator, password: operator }\n", 1)
	c := natstest.Start(t, natstest.Options{Config: "WAVEHOUSE_NATS_PASSWORD: secret\n" + conf})
	c.Ready(t, operator())
	password := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(password, []byte("secret"), 0o600))
	return c, link.Options{URLs: c.URLs(), User: "wavehouse", PasswordFile: password}
}

// A user who lacks permissions is told at the start which ones, and nothing is
// changed to find out.
func TestAMissingPermissionIsNamed(t *testing.T) {
	t.Parallel()
	plan := planned("t1")
	lacks := []string{"t1.ingest.>", "$JS.API.CONSUMER.MSG.NEXT.T1_INGEST_0.*", "$JS.API.CONSUMER.UNPIN.T1_INGEST_0.*", "t1.dlq.>"}
	refused := []string{
		"t1.notice.>", "$KV.t1.>", "$JS.ACK.T1_INGEST_0.>", "$JS.API.CONSUMER.CREATE.T1_HISTORY_0.>",
		"$JS.API.CONSUMER.DELETE.T1_HISTORY_0.*", "$JS.API.CONSUMER.MSG.NEXT.T1_HISTORY_0.*",
	}
	unheard := []string{"t1.notice.>", "$JS.EVENT.ADVISORY.STREAM.DELETED.>"}
	may := topology.PermissionsOf(topology.Of(plan))
	all := len(may.Publish)
	may.Publish = slices.DeleteFunc(may.Publish, func(s string) bool { return slices.Contains(lacks, s) || slices.Contains(refused, s) })
	require.Len(t, may.Publish, all-len(lacks)-len(refused))
	may.Subscribe = slices.DeleteFunc(may.Subscribe, func(s string) bool { return slices.Contains(unheard, s) })
	c, user := serving(t, may)
	js := c.JetStream(t, operator())
	require.NoError(t, topology.Apply(t.Context(), js, topology.Of(plan)))
	ctx, log := withAlarm(t.Context())
	_, err := New(ctx, Options{
		Link: user, Names: plan.Names, Partitions: plan.Partitions, Shards: plan.Shards,
		Group: seat{newCrowd("self"), "self"}, Logger: log, TopologyWait: time.Minute,
	})
	var wrong *topology.Error
	require.ErrorAs(t, err, &wrong)
	for _, lack := range lacks {
		require.ErrorContains(t, err, "the user may lack the permission for "+strings.TrimRight(lack, ">*"))
	}
	for _, lack := range append(refused, unheard...) {
		require.ErrorContains(t, err, "the user lacks the permission for "+strings.TrimRight(lack, ">*"))
	}
	require.NotContains(t, err.Error(), "permission for $JS.API.CONSUMER.UNPIN.T1_INGEST_1")
	require.NotContains(t, err.Error(), "permission for $JS.EVENT.ADVISORY.CONSUMER.DELETED")
	for p := range plan.Partitions {
		s, err := js.Stream(t.Context(), plan.Ingest(p))
		require.NoError(t, err)
		require.Zero(t, s.CachedInfo().State.LastSeq, "nothing was stored")
	}
}
