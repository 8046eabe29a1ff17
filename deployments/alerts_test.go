package deployments

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The alerts fire when they should, on the first event too. promtool is in the
// Debian package prometheus.
func TestAlertsFire(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		require.Empty(t, os.Getenv("CI"), "scripts/deps.sh installs promtool")
		t.Skip("no promtool")
	}
	_, groups, ok := strings.Cut(string(read(t, "kubernetes/alerts.yaml")), "\nspec:\n")
	require.True(t, ok)
	dir := t.TempDir()
	// What the operator hands to Prometheus is what stands in spec.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "alerts.rules.yaml"), []byte(groups), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "alerts.test.yaml"), read(t, "kubernetes/alerts.test.yaml"), 0o600))
	for _, args := range [][]string{{"check", "rules", "alerts.rules.yaml"}, {"test", "rules", "alerts.test.yaml"}} {
		cmd := exec.CommandContext(t.Context(), promtool, args...) //nolint:gosec // promtool and our own files
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	for _, alert := range alertNames(t) {
		assert.Contains(t, string(read(t, "kubernetes/alerts.test.yaml")), alert, "an alert that no test makes fire")
	}
}

// Each alert leads to the page that says what to do.
func TestAlertsHaveARunbook(t *testing.T) {
	page := string(read(t, "../docs/operations.md"))
	_, section, ok := strings.Cut(page, "\n## Alerts\n")
	require.True(t, ok, "where runbook_url leads")
	section, _, _ = strings.Cut(section, "\n## ")
	names := alertNames(t)
	for _, name := range names {
		assert.Contains(t, section, "`"+name+"`")
	}
	rules := string(read(t, "kubernetes/alerts.yaml"))
	assert.Equal(t, len(names), strings.Count(rules, "runbook_url: https://github.com/wavehouse/wavehouse/blob/main/docs/operations.md#alerts\n"))
}

func alertNames(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, found := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(read(t, "kubernetes/alerts.yaml")), -1) {
		names = append(names, found[1])
	}
	require.Greater(t, len(names), 10)
	return names
}
