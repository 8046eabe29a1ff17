package nats

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
		plan := topology.Default()
		plan.Prefix, plan.Partitions, plan.Shards = fmt.Sprint("t", n), 2, 3
		plan.Bucket = plan.Prefix
		one := topology.PermissionsOf(topology.Of(plan))
		may.Publish, may.Subscribe = append(may.Publish, one.Publish...), append(may.Subscribe, one.Subscribe...)
	}
	may.Responses = true
	conf := strings.Replace(may.Conf(), "users = [\n", "users = [\n    { user: operator, password: operator }\n", 1)
	c := natstest.Start(t, natstest.Options{Config: "WAVEHOUSE_NATS_PASSWORD: secret\n" + conf})
	c.Ready(t, operator())
	password := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(password, []byte("secret"), 0o600))
	return c, link.Options{URLs: c.URLs(), User: "wavehouse", PasswordFile: password}
}
