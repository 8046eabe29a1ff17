package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/wavehouse/wavehouse/internal/app"
	"github.com/wavehouse/wavehouse/internal/config"
	"github.com/wavehouse/wavehouse/internal/telemetry"
)

func newServe(t *terminal, build telemetry.Build) *cobra.Command {
	flags := map[string]*string{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Runs the server until SIGINT or SIGTERM, then finishes what is in flight. A
second signal exits at once. SIGHUP reads the settings directory again.

The boot configuration comes from flags, WH_* variables, the file that WH_CONFIG
names (config.yaml) and defaults, in this order: see 'wavehouse config'.`,
		Example: `  WH_SETTINGS_DIR=./settings wavehouse serve
  wavehouse serve --settings.dir ./settings --server.port 9090`,
		Args: cobra.NoArgs,
	}
	for _, key := range []string{"settings.dir", "data_dir", "server.host", "server.port", "log.level", "log.format"} {
		flags[key] = cmd.Flags().String(key, "", "overrides "+key+" of the boot configuration")
	}
	localOnly := cmd.Flags().Bool("local-only", false, "refuse requests of web pages that are not of this machine")
	_ = cmd.Flags().MarkHidden("local-only") // a cluster of 'wavehouse dev' asks for it
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		given := map[string]string{}
		for key, value := range flags {
			if cmd.Flags().Changed(key) {
				given[key] = *value
			}
		}
		return serve(cmd.Context(), t, build, given, *localOnly)
	}
	return cmd
}

func serve(ctx context.Context, t *terminal, build telemetry.Build, flags map[string]string, localOnly bool) error {
	boot, warnings, err := config.Load(t.env, flags)
	if err != nil {
		return err
	}
	logger, err := newLogger(t, boot)
	if err != nil {
		return err
	}
	for _, warning := range warnings {
		logger.Warn(warning)
	}
	state, err := boot.ProbeDataDir()
	if err != nil {
		return err
	}
	for _, warning := range state {
		logger.Warn(warning)
	}
	limit := boot.Limits.Memory
	if limit == 0 {
		limit = app.ContainerMemory("/")
	}
	if limit > 0 {
		logger.Info("memory limit", "bytes", limit)
	}
	app.LimitMemory(limit)
	defer runtime.KeepAlive(app.SpareHeap(limit))
	return runApp(ctx, t, app.Options{Config: boot, Build: build, Logger: logger, Memory: limit, LocalOnly: localOnly})
}

// runApp runs an app until ctx ends. To be told to stop during the start is no
// failure.
func runApp(ctx context.Context, t *terminal, o app.Options) error {
	started, tell := make(chan struct{}), o.Started
	o.Started = func(addr net.Addr) {
		close(started)
		if tell != nil {
			tell(addr)
		}
	}
	a, err := app.New(ctx, o)
	switch {
	case err != nil && ctx.Err() != nil:
		o.Logger.Info("stopped during the start", "cause", context.Cause(ctx), "error", err)
		return nil
	case err != nil:
		return err
	}
	stop := reloadOnHangup(ctx, a, t.hangups, started)
	defer stop()
	return a.Run(ctx)
}

func newLogger(t *terminal, boot *config.Config) (*slog.Logger, error) {
	format := boot.Log.Format
	if format == "auto" {
		format = ""
	}
	logger, err := telemetry.NewLogger(t.err, telemetry.LogOptions{Level: boot.Log.Level, Format: format, Terminal: t.interactive})
	if err != nil {
		return nil, fmt.Errorf("log: %w", err)
	}
	return logger.With("instance", boot.InstanceID), nil
}

// reloadOnHangup reads the settings again at each SIGHUP, those before started at
// once then, until ctx ends or the returned function is called, which waits for a
// reload that runs.
func reloadOnHangup(ctx context.Context, a *app.App, hangups <-chan os.Signal, started <-chan struct{}) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-ctx.Done():
			return
		case <-started:
		}
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangups:
				a.Reload(ctx)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
