package main

import (
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// options are what the command line says.
type options struct {
	path          string
	httpPort      int
	tcpPort       int
	native        bool
	configFile    string
	users         string
	lib           string
	dieWithParent bool
	remove        bool

	http, tcp *relay // tcp is nil when it was not asked for
}

func parseOptions(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("clickhouse-dev", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.path, "path", "", "`directory` of the data (required)")
	f.IntVar(&o.httpPort, "http-port", 0, "HTTP `port`; 0 picks a free one")
	f.BoolVar(&o.native, "native", false, "open the native protocol, too")
	f.IntVar(&o.tcpPort, "tcp-port", 0, "native protocol `port`, opened as with --native; 0 picks a free one")
	f.StringVar(&o.users, "users", "", "users, passwords, profiles and grants, a users.xml `file`; it must let default in from loopback without a password, as the engine does itself")
	f.StringVar(&o.lib, "lib", os.Getenv("CLICKHOUSE_LIB"), "the engine, a libchdb.so `file`; default CLICKHOUSE_LIB, then .cache/clickhouse/*/")
	f.BoolVar(&o.dieWithParent, "die-with-parent", false, "stop when standard input ends")
	f.BoolVar(&o.remove, "rm", false, "remove the data directory at the end")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if o.path == "" {
		return nil, errors.New("--path is required")
	}
	return o, nil
}

// prepare makes the directory, finds the library and opens the ports.
func (o *options) prepare() (err error) {
	if o.path, err = filepath.Abs(o.path); err != nil {
		return fmt.Errorf("--path %s: %w", o.path, err)
	}
	if err = os.MkdirAll(o.path, 0o755); err != nil {
		return fmt.Errorf("make the data directory: %w", err)
	}
	if o.lib, err = findLibrary(o.lib); err != nil {
		return err
	}
	if o.configFile, err = writeConfig(o.path, o.users); err != nil {
		return err
	}
	if o.http, err = newRelay(o.httpPort); err != nil {
		return fmt.Errorf("HTTP port: %w", err)
	}
	if !o.native && o.tcpPort == 0 {
		return nil
	}
	if o.tcp, err = newRelay(o.tcpPort); err != nil {
		return fmt.Errorf("native protocol port: %w", err)
	}
	return nil
}

// cleanup leaves nothing behind when that was asked for.
func (o *options) cleanup() {
	if o.remove {
		_ = os.RemoveAll(o.path)
	}
}

// engineConfig is what cannot be said on the engine's command line.
type engineConfig struct {
	XMLName xml.Name `xml:"clickhouse"`
	// ShutdownWait is how many seconds the engine waits at its end for
	// connections that clients keep open.
	ShutdownWait int    `xml:"shutdown_wait_unfinished"`
	UsersConfig  string `xml:"users_config,omitempty"`
}

// writeConfig writes the engine's configuration into its data directory and
// returns the file's path. users may be "".
func writeConfig(dir, users string) (string, error) {
	config := engineConfig{ShutdownWait: 1}
	if users != "" {
		if _, err := os.Stat(users); err != nil {
			return "", fmt.Errorf("--users: %w", err)
		}
		abs, err := filepath.Abs(users)
		if err != nil {
			return "", fmt.Errorf("--users %s: %w", users, err)
		}
		config.UsersConfig = abs
	}
	data, err := xml.Marshal(config)
	if err != nil {
		return "", fmt.Errorf("encode the engine's configuration: %w", err)
	}
	path := filepath.Join(dir, "clickhouse-dev.xml")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return "", fmt.Errorf("write the engine's configuration: %w", err)
	}
	return path, nil
}

// arguments is the engine's command line: that of clickhouse-local, whose query
// opens the ports and then reads a pipe that nothing is written to.
func (o *options) arguments(pipe string) []string {
	args := []string{
		"clickhouse",
		"--config-file=" + o.configFile,
		"--path=" + o.path,
		"--http_port=" + strconv.Itoa(o.http.engine),
		"--listen_host=127.0.0.1",
	}
	listen := "SYSTEM START LISTEN HTTP"
	if o.tcp != nil {
		args = append(args, "--tcp_port="+strconv.Itoa(o.tcp.engine))
		listen += "; SYSTEM START LISTEN TCP"
	}
	return append(args, "--query",
		listen+"; SELECT * FROM file('"+pipe+"', 'LineAsString', 'l String') FORMAT Null")
}
