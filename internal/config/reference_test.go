package config

import (
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/spec"
	"github.com/wavehouse/wavehouse/internal/spec/spectest"
)

var update = flag.Bool("update", false, "write the generated files anew")

const root = "../.."

func TestReferencePageIsCurrent(t *testing.T) {
	spectest.Current(t, filepath.Join(root, "docs", "configuration.md"), Reference(), *update)
}

const sampleHead = `# WaveHouse boot configuration: every key with its default. Nothing here is set
# until its line is uncommented. Variables win over this file; docs/configuration.md
# has the same list.
`

func TestSampleFileIsCurrent(t *testing.T) {
	spectest.Current(t, filepath.Join(root, "config.yaml"), spectest.Sample(keys(), sampleHead), *update)
}

// TestSampleLoadsToTheDefaults reads the shipped file as it is, and with every
// key uncommented: both are the defaults, and the second sets every key.
func TestSampleLoadsToTheDefaults(t *testing.T) {
	shipped, err := os.ReadFile(filepath.Join(root, "config.yaml"))
	require.NoError(t, err)
	uncommented := regexp.MustCompile(`(?m)^( *)#([a-z_]+:)`).ReplaceAll(shipped, []byte("$1$2"))
	inDir(t)
	for text, origin := range map[string]Origin{string(shipped): OriginDefault, string(uncommented): OriginFile} {
		write(t, "config.yaml", text)
		c, warnings, err := Load(nil, nil)
		require.ErrorContains(t, err, "settings.dir: required")
		assert.NotContains(t, err.Error(), "\n", "no other fault")
		assert.Empty(t, warnings)
		for _, s := range c.Effective() {
			assert.Equal(t, origin, s.Origin, s.Key)
		}
		c.sources, c.InstanceID = nil, ""
		assert.Equal(t, Default(), c)
	}
}

func TestEveryKeyIsDocumentedAndNamedOnce(t *testing.T) {
	seen := map[string]bool{}
	keys().Each(Default(), func(f spec.Field, _ reflect.Value) {
		assert.NotEmpty(t, f.Doc, f.Key)
		assert.True(t, strings.HasPrefix(f.Env, "WH_"), f.Key)
		assert.False(t, seen[f.Key] || seen[f.Env], f.Key)
		seen[f.Key], seen[f.Env] = true, true
		assert.Contains(t, Reference(), "| `"+f.Key+"` | `"+f.Env+"` |")
	})
	for _, f := range fields {
		assert.True(t, seen[f.Key], "%s has no place in a Config", f.Key)
	}
}
