package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/wavehouse/wavehouse/internal/app"
	"github.com/wavehouse/wavehouse/internal/config"
	"github.com/wavehouse/wavehouse/internal/dev"
	"github.com/wavehouse/wavehouse/internal/mq/nats/topology"
	"github.com/wavehouse/wavehouse/internal/telemetry"
)

func newDev(t *terminal, build telemetry.Build) *cobra.Command {
	o := dev.Options{Out: t.out, Interactive: t.interactive}
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything on this machine: ClickHouse, the server, demo data",
		Long: `Starts a ClickHouse (a clickhouse on PATH, or else clickhouse-dev), writes a
settings directory whose policy is open to this machine, creates a demo table,
starts the server on loopback and posts a real data set through its API.
Everything is kept in --dir; a second run finds it again.`,
		Example: `  wavehouse dev
  wavehouse dev --port 9090 --dir /tmp/try
  wavehouse dev --no-demo --clickhouse localhost
  wavehouse dev --cluster 3            # three processes on a NATS cluster of three`,
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Dir, "dir", "data/dev", "where everything is kept")
	flags.IntVar(&o.Port, "port", 8080, "the server's port")
	flags.StringVar(&o.ClickHouse, "clickhouse", "", "use the ClickHouse on this host instead of starting one")
	flags.IntVar(&o.ClickHouseHTTP, "clickhouse-http-port", 8123, "the HTTP port of the ClickHouse named by --clickhouse")
	flags.BoolVar(&o.NoDemo, "no-demo", false, "no demo table and no demo data")
	flags.StringVar(&o.DemoData, "demo-data", "", "the demo's rows, one JSON object a line (default: what `make deps` fetched)")
	processes := flags.Int("cluster", 0, "run this many processes, with roles, on a NATS cluster of three, behind one port")
	nats := flags.String("nats-server", "", "the NATS server of --cluster (default: nats-server beside this program, or on PATH)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *processes < 0 || *processes == 1 || *processes > maxDevProcesses {
			return &usageError{fmt.Errorf("--cluster %d: want 2 to %d", *processes, maxDevProcesses)}
		}
		if o.Port < 1 || o.Port > 65535 {
			return &usageError{fmt.Errorf("--port %d: want 1 to 65535", o.Port)}
		}
		if *processes > 0 {
			cluster, err := devCluster(t, *processes, *nats)
			if err != nil {
				return err
			}
			return dev.Run(cmd.Context(), o, cluster)
		}
		return dev.Run(cmd.Context(), o, devServer{t, build})
	}
	return cmd
}

// maxDevProcesses bounds --cluster.
const maxDevProcesses = 16

// devCluster is many real servers, as dev wants them.
func devCluster(t *terminal, processes int, nats string) (*dev.Cluster, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	plan := topology.Default()
	plan.FileStore = 8 << 30
	return &dev.Cluster{
		Program: self, NATS: nats, Processes: processes, Env: t.env, Say: t.sayf,
		Apply: func(ctx context.Context, urls []string) error {
			boot := config.Default()
			boot.MQ.NATS.URLs = urls
			return app.ApplyNATS(ctx, boot, topology.Of(plan))
		},
	}, nil
}

// devServer is the real server, as dev wants it.
type devServer struct {
	terminal *terminal
	build    telemetry.Build
}

// Run serves until ctx ends.
func (s devServer) Run(ctx context.Context, o dev.ServerOptions, ready func()) error {
	given := map[string]string{
		"server.host": o.Host, "server.port": strconv.Itoa(o.Port), "data_dir": o.DataDir,
		"settings.dir": o.SettingsDir, "auth.operator_key": o.OperatorKey, "server.shutdown_timeout": "2s",
	}
	if lookup(s.terminal.env, "WH_AUTH_JWT_SECRET") == "" && lookup(s.terminal.env, "WH_AUTH_JWT_SECRET_FILE") == "" {
		given["auth.jwt_secret"] = o.TokenSecret
	}
	boot, _, err := config.Load(s.terminal.env, given)
	if err != nil {
		return err
	}
	if _, err := boot.ProbeDataDir(); err != nil {
		return err
	}
	log, err := os.OpenFile(o.LogFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	defer func() { _ = log.Close() }()
	logger, err := telemetry.NewLogger(log, telemetry.LogOptions{Level: boot.Log.Level, Format: "json"})
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	return runApp(ctx, s.terminal, app.Options{
		Config: boot, Build: s.build, Logger: logger, Started: func(net.Addr) { ready() }, LocalOnly: true,
	})
}
