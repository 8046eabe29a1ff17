package dev

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/wavehouse/wavehouse/internal/settings"
)

// prepare writes what the server needs, unless an earlier run did, and returns
// the operator key and the secret of tokens.
func prepare(o Options, c *clickhouse) (operatorKey, tokenSecret string, err error) {
	if err := writeSettings(settingsDir(o), c); err != nil {
		return "", "", fmt.Errorf("write the settings: %w", err)
	}
	if operatorKey, err = ensureKey(filepath.Join(o.Dir, "operator.key")); err != nil {
		return "", "", err
	}
	tokenSecret, err = ensureKey(filepath.Join(o.Dir, "jwt.secret"))
	return operatorKey, tokenSecret, err
}

// writeSettings writes an open policy for loopback, or points the settings of
// an earlier run to where ClickHouse is now. Other edits are kept.
func writeSettings(dir string, c *clickhouse) error {
	if _, err := os.Stat(filepath.Join(dir, "config.json")); errors.Is(err, fs.ErrNotExist) {
		_, err := settings.Bootstrap(dir, settings.Permissive(c.host, c.http))
		return err
	}
	return repoint(filepath.Join(dir, "config.json"), c)
}

// repoint changes clickhouse.addr and clickhouse.http_port in a config.json. A
// file that does not parse is left alone: the server says what is wrong.
func repoint(file string, c *clickhouse) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var config map[string]json.RawMessage
	if json.Unmarshal(data, &config) != nil || config == nil {
		return nil
	}
	var target map[string]json.RawMessage
	if raw, ok := config["clickhouse"]; ok && json.Unmarshal(raw, &target) != nil {
		return nil
	}
	if target == nil {
		target = map[string]json.RawMessage{}
	}
	addr, port := json.RawMessage(jsonString(c.host)), json.RawMessage(fmt.Sprint(c.http))
	if string(target["addr"]) == string(addr) && string(target["http_port"]) == string(port) {
		return nil
	}
	target["addr"], target["http_port"] = addr, port
	if config["clickhouse"], err = json.Marshal(target); err != nil {
		return err
	}
	if data, err = json.MarshalIndent(config, "", "  "); err != nil {
		return err
	}
	return replaceFile(file, append(data, '\n'), 0o640)
}

// replaceFile writes beside the file and renames over it, so that a reader
// sees the old content or the new.
func replaceFile(file string, data []byte, mode os.FileMode) error {
	next := filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+".next")
	if err := os.WriteFile(next, data, mode); err != nil {
		return err
	}
	return os.Rename(next, file)
}

func ensureKey(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err == nil && len(strings.TrimSpace(string(data))) > 0 {
		return strings.TrimSpace(string(data)), nil
	}
	raw := make([]byte, 24)
	if _, err := rand.Read(raw); err != nil {
		return "", fmt.Errorf("make a key: %w", err)
	}
	key := hex.EncodeToString(raw)
	if err := replaceFile(file, []byte(key+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("keep a key: %w", err)
	}
	return key, nil
}

// writeServerConfig writes the configuration of a `clickhouse server` that
// listens on loopback and keeps everything below dir.
func writeServerConfig(dir string, httpPort int) (string, error) {
	users := `<clickhouse>
  <profiles><default/></profiles>
  <quotas><default/></quotas>
  <users><default>
    <password></password>
    <networks><ip>127.0.0.1</ip><ip>::1</ip></networks>
    <profile>default</profile><quota>default</quota>
    <access_management>1</access_management>
  </default></users>
</clickhouse>
`
	config := fmt.Sprintf(`<clickhouse>
  <logger><level>warning</level><console>1</console></logger>
  <listen_host>127.0.0.1</listen_host>
  <http_port>%d</http_port>
  <path>%[2]s/</path>
  <tmp_path>%[2]s/tmp/</tmp_path>
  <user_files_path>%[2]s/user_files/</user_files_path>
  <format_schema_path>%[2]s/format_schemas/</format_schema_path>
  <users_config>%[2]s/users.xml</users_config>
  <default_profile>default</default_profile>
  <default_database>default</default_database>
  <mark_cache_size>268435456</mark_cache_size>
</clickhouse>
`, httpPort, xmlEscape(dir))
	if err := os.WriteFile(filepath.Join(dir, "users.xml"), []byte(users), 0o600); err != nil {
		return "", err
	}
	file := filepath.Join(dir, "config.xml")
	return file, os.WriteFile(file, []byte(config), 0o600)
}

func xmlEscape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}
