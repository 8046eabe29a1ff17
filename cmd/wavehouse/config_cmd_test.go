package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestConfigIsShownEvenWhenItWouldNotStart(t *testing.T) {
	t.Chdir(t.TempDir())
	out, talk, code := command(t, []string{"WH_SERVER_PORT=9090", "WH_LOG_LEVEL=loud"}, "config")
	assert.Equal(t, exitFailure, code)
	assert.Regexp(t, `(?m)^server\.port +9090 +env$`, out)
	assert.Regexp(t, `(?m)^log\.level +info +default$`, out)
	assert.Contains(t, talk, `WH_LOG_LEVEL: "loud" is not one of debug, info, warn, error`)
}

func TestAMissingSettingsDirectoryIsNamed(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	nowhere := filepath.Join(dir, "nowhere")
	data := "WH_DATA_DIR=" + filepath.Join(dir, "data")
	_, talk, code := command(t, []string{"WH_SETTINGS_DIR=" + nowhere, data}, "serve")
	assert.Equal(t, exitFailure, code)
	assert.Contains(t, talk, `settings.dir "`+nowhere+`" (WH_SETTINGS_DIR): settings refused`)
	_, talk, _ = command(t, []string{data}, "serve", "--settings.dir", nowhere)
	assert.Contains(t, talk, `settings.dir "`+nowhere+`" (flag for settings.dir): settings refused`)
	out, talk, _ := command(t, []string{"WH_SETTINGS_DIR=" + nowhere}, "validate")
	assert.Equal(t, "settings directory: error: "+nowhere+" cannot be read: no such file or directory\n", out)
	assert.Contains(t, talk, "not valid: "+nowhere+" (WH_SETTINGS_DIR)\n")
}
