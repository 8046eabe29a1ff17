package deployments

import (
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq/nats/topology"
)

var update = flag.Bool("update", false, "write the generated files again")

// What lies here is what the commands print for a cluster of three: make generate
// writes it again.
func TestTheFilesForNATSAreCurrent(t *testing.T) {
	plan := topology.Default()
	all := topology.Of(plan)
	for file, want := range map[string]string{
		"nats/nack.yaml": all.Nack(), "nats/make.sh": all.Script(), "nats/topology.json": all.JSON(),
		"nats/values.yaml": all.Values(plan), "nats/wavehouse-user.conf": topology.PermissionsOf(all).Conf(),
	} {
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(want), 0o644))
		}
		assert.Equal(t, want, string(read(t, file)), file)
	}
}
