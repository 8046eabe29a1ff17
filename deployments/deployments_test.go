package deployments

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"github.com/wavehouse/wavehouse/internal/config"
	"github.com/wavehouse/wavehouse/internal/settings"
)

// object is a part of a YAML document.
type object = map[string]any

func TestEveryYAMLDocumentParses(t *testing.T) {
	files := filesOf(t, ".yaml")
	require.GreaterOrEqual(t, len(files), 6)
	for _, file := range files {
		for _, doc := range documents(t, file) {
			assert.NotEmpty(t, doc, file)
			if strings.HasPrefix(file, "kubernetes") && !strings.HasSuffix(file, ".test.yaml") {
				assert.NotEmpty(t, doc["kind"], file)
				assert.NotEmpty(t, doc["apiVersion"], file)
			}
		}
	}
}

func TestKustomizationNamesFilesThatExist(t *testing.T) {
	for _, folder := range []string{"kubernetes", "kubernetes-cluster"} {
		doc := only(t, folder+"/kustomization.yaml")
		for _, name := range doc["resources"].([]any) {
			assert.FileExists(t, filepath.Join(folder, name.(string)))
		}
	}
}

func TestVariablesAreBootKeys(t *testing.T) {
	reference := config.Reference()
	variable := regexp.MustCompile(`\bWH_[A-Z_]+\b`)
	seen := 0
	for _, file := range append(filesOf(t, ".yaml"), "Dockerfile") {
		if strings.HasPrefix(file, "nats/") {
			continue // they name streams, and set nothing of WaveHouse's
		}
		for _, doc := range strings.Split(withoutComments(t, file), "\n") {
			for _, name := range variable.FindAllString(doc, -1) {
				seen++
				assert.Contains(t, reference, "`"+name+"`", "%s sets %s, which would refuse to start", file, name)
			}
		}
	}
	assert.GreaterOrEqual(t, seen, 8)
}

func TestShippedSettingsAreValid(t *testing.T) {
	t.Run("compose", func(t *testing.T) { validate(t, "compose/settings") })
	t.Run("kubernetes", func(t *testing.T) {
		dir := t.TempDir()
		for name, content := range only(t, "kubernetes/settings.yaml")["data"].(object) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content.(string)), 0o600))
		}
		validate(t, dir)
	})
}

func validate(t *testing.T, dir string) {
	t.Helper()
	report := settings.Validate(dir)
	require.Len(t, report.Tenants, 1)
	for _, f := range report.Findings {
		assert.NotEqual(t, settings.SeverityError, f.Severity, f.String())
	}
}

func TestThePodKeepsWhatTheServerReliesOn(t *testing.T) {
	set := only(t, "kubernetes/statefulset.yaml")
	spec := dig(set, "spec", "template", "spec")
	assert.Equal(t, 1, dig(set, "spec")["replicas"], "the embedded queue belongs to one process")
	assert.Equal(t, false, spec["enableServiceLinks"])
	assert.Equal(t, 65532, dig(spec, "securityContext")["runAsUser"])

	container := spec["containers"].([]any)[0].(object)
	assert.Equal(t, true, dig(container, "securityContext")["readOnlyRootFilesystem"])
	for _, probe := range []string{"startupProbe", "livenessProbe"} {
		assert.Equal(t, "/livez", dig(container, probe, "httpGet")["path"], probe)
	}
	assert.Equal(t, "/readyz", dig(container, "readinessProbe", "httpGet")["path"])
	for _, m := range container["volumeMounts"].([]any) {
		assert.NotContains(t, m, "subPath", "a file mounted by subPath is never updated")
	}

	const shutdown, stores, telemetry = 10, 5, 3
	assert.Greater(t, spec["terminationGracePeriodSeconds"], shutdown+stores+telemetry)
}

func TestImageTagsArePinned(t *testing.T) {
	image := regexp.MustCompile(`(?m)^\s*(?:FROM|image:)\s+(\S+)`)
	seen := 0
	for _, file := range []string{"Dockerfile", "compose.yaml", "compose.cluster.yaml"} {
		for _, m := range image.FindAllStringSubmatch(withoutComments(t, file), -1) {
			seen++
			if m[1] != "scratch" {
				assert.Regexp(t, `:[\w][\w.-]*$`, m[1], file)
				assert.NotContains(t, m[1], "latest", file)
			}
		}
	}
	assert.GreaterOrEqual(t, seen, 4)
}

// filesOf lists the files below this folder with the ending.
func filesOf(t *testing.T, ending string) []string {
	t.Helper()
	var files []string
	require.NoError(t, filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(name, ending) {
			files = append(files, filepath.ToSlash(name))
		}
		return err
	}))
	return files
}

func documents(t *testing.T, file string) []object {
	t.Helper()
	decoder := yaml.NewDecoder(bytes.NewReader(read(t, file)))
	var docs []object
	for {
		var doc object
		err := decoder.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return docs
		}
		require.NoError(t, err, file)
		docs = append(docs, doc)
	}
}

func only(t *testing.T, file string) object {
	t.Helper()
	docs := documents(t, file)
	require.Len(t, docs, 1, file)
	return docs[0]
}

func dig(o object, path ...string) object {
	for _, key := range path {
		o, _ = o[key].(object)
	}
	return o
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	return data
}

func withoutComments(t *testing.T, file string) string {
	t.Helper()
	return regexp.MustCompile(`(?m)^\s*#.*$`).ReplaceAllString(string(read(t, file)), "")
}
