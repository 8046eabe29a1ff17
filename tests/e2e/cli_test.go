package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

type result struct {
	code        int
	out, errOut string
}

// cli runs wavehouse to its end with a clean environment.
func cli(t *testing.T, env []string, args ...string) result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(binaries.Dir(t), "wavehouse"), args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	var out, errOut strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if exited := (*exec.ExitError)(nil); !errors.As(err, &exited) {
		require.NoError(t, err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		env  []string
		args []string
		code int
		says string
	}{
		"help":               {nil, []string{"--help"}, 0, "wavehouse serve"},
		"unknown command":    {nil, []string{"nosuch"}, 2, "nosuch"},
		"unknown flag":       {nil, []string{"version", "--nosuch"}, 2, "--nosuch"},
		"too many arguments": {nil, []string{"version", "x"}, 2, ""},
		"bad format":         {nil, []string{"version", "--format", "xml"}, 2, "xml"},
		"no directory":       {nil, []string{"validate"}, 2, "WH_SETTINGS_DIR"},
		"absent directory":   {nil, []string{"validate", "/nosuch"}, 1, "/nosuch"},
		"no settings":        {nil, []string{"serve"}, 1, "settings.dir"},
		"unknown variables":  {[]string{"WH_SETTINGS_DIR=/nosuch", "WH_SERVER_PROT=1", "WH_NOSUCH=1"}, []string{"serve"}, 1, "WH_SERVER_PORT"},
		"a part of the work": {[]string{"WH_SETTINGS_DIR=/nosuch", "WH_ROLES=api"}, []string{"serve"}, 1, "roles: the embedded queue lives in one process"},
		"another queue":      {[]string{"WH_SETTINGS_DIR=/nosuch", "WH_MQ_BACKEND=nats"}, []string{"serve"}, 1, "mq.nats.urls: required"},
		"nobody answers":     {nil, []string{"health", "http://127.0.0.1:1"}, 1, "127.0.0.1:1"},
		"version":            {nil, []string{"version"}, 0, "wavehouse "},
		"version as a flag":  {nil, []string{"--version"}, 0, "wavehouse "},
		"misspelt":           {nil, []string{"serv"}, 2, `did you mean "serve"?`},
		"misspelt below":     {nil, []string{"dlq", "lst"}, 2, `did you mean "list"?`},
		"usage of its own":   {nil, []string{"dlq", "list", "--nosuch"}, 2, "Run 'wavehouse dlq list --help' for usage"},
		"config of nothing":  {nil, []string{"config"}, 0, "server.port"},
		"config at fault":    {[]string{"WH_SERVER_PORT=x"}, []string{"config"}, 1, "server.port"},
		"token of nothing":   {nil, []string{"token", "--role", "viewer"}, 2, "WH_AUTH_JWT_SECRET"},
		"reference":          {nil, []string{"config", "--reference"}, 0, "WH_SERVER_PORT"},
		"completion":         {nil, []string{"completion", "bash"}, 0, "wavehouse"},
	} {
		t.Run(name, func(t *testing.T) {
			r := cli(t, test.env, test.args...)
			require.Equal(t, test.code, r.code, r.out+r.errOut)
			require.Contains(t, r.out+r.errOut, test.says)
			require.NotContains(t, r.out+r.errOut, "\x1b[", "no colour without a terminal")
			if name == "no directory" || name == "token of nothing" {
				require.NotContains(t, r.errOut, "--help", "what to do is said")
			}
		})
	}
}

func TestAllFaultsOfABootConfigurationAtOnce(t *testing.T) {
	t.Parallel()
	r := cli(t, []string{"WH_SERVER_PORT=notaport", "WH_SERVER_PROT=1", "WH_MQ_BACKEND=nosuch", "WH_SERVICE_HOST=10.0.0.1"}, "serve")
	require.Equal(t, 1, r.code)
	for _, name := range []string{"WH_SERVER_PORT", "WH_SERVER_PROT", "WH_MQ_BACKEND", "WH_SERVICE_HOST", "enableServiceLinks: false", "settings.dir"} {
		require.Contains(t, r.errOut, name)
	}
}

func TestBootstrapValidates(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "settings")
	require.Zero(t, cli(t, nil, "bootstrap", dir).code)
	r := cli(t, nil, "validate", "--format", "json", "--show", dir)
	require.Zero(t, r.code, r.out)
	var report struct {
		Valid    bool             `json:"valid"`
		Findings []map[string]any `json:"findings"`
		Settings any              `json:"settings"`
	}
	require.NoError(t, json.Unmarshal([]byte(r.out), &report))
	require.True(t, report.Valid)
	require.NotNil(t, report.Settings)

	again := cli(t, nil, "bootstrap", dir)
	require.Equal(t, 1, again.code)
	require.Contains(t, again.errOut, "empty")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "policies.json"), []byte(`{"tables":{"t":{"x":{"select":{"fliter":{}}}}},"nosuch":1}`), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "roles.json"), []byte("[]"), 0o600))
	broken := cli(t, nil, "validate", dir)
	require.Equal(t, 1, broken.code)
	for _, part := range []string{"policies.json", "fliter", "nosuch", "roles.json"} {
		require.Contains(t, broken.out, part)
	}
}

func TestConfigMasksSecrets(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(secret, []byte("from-a-file\n"), 0o600))
	r := cli(t, []string{"WH_SETTINGS_DIR=/s", "WH_AUTH_JWT_SECRET=tell-nobody-about-this-secret-0000", "WH_AUTH_OPERATOR_KEY_FILE=" + secret}, "config")
	require.Zero(t, r.code, r.errOut)
	require.NotContains(t, r.out, "tell-nobody")
	require.NotContains(t, r.out, "from-a-file")
	require.Contains(t, r.out, "auth.operator_key")
}

// A binary that may look for methods by their names keeps every method of every
// library: half as much again, on disk and in memory.
func TestTheBinaryLeavesOutWhatNobodyCalls(t *testing.T) {
	t.Parallel()
	binary, err := os.ReadFile(filepath.Join(binaries.Dir(t), "wavehouse"))
	require.NoError(t, err)
	require.True(t, bytes.Contains(binary, []byte("wavehouse/internal/app.(*App).Run")), "functions have their names in it")
	require.False(t, bytes.Contains(binary, []byte("text/template.(*state).evalField")))
	for _, file := range []string{"Makefile", "deployments/Dockerfile"} {
		text, err := os.ReadFile(filepath.Join(harness.Root(t), file))
		require.NoError(t, err)
		require.Contains(t, string(text), "grpcnotrace", file)
	}
}
