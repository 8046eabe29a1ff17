package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wavehouse/wavehouse/internal/app"
	"github.com/wavehouse/wavehouse/internal/config"
	"github.com/wavehouse/wavehouse/internal/mq/nats/topology"
	"github.com/wavehouse/wavehouse/internal/units"
)

func newMQ(t *terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "mq",
		Short: "Print and check what the queue needs of a NATS cluster",
		Long: `With mq.backend: nats the queue lies on a NATS cluster whose operator makes every
stream, durable and bucket: the server never does. These commands print them, and
hold a cluster against them.`,
		Example: `  wavehouse mq manifests --partitions 4 --shards 8 --file-store 100GiB   # for nack
  wavehouse mq manifests --format nats-cli > make.sh
  wavehouse mq permissions > wavehouse-user.conf
  wavehouse mq check                                                    # as the server is configured`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newMQManifests(t), newMQPermissions(t), newMQCheck(t), newMQApply(t))
	return cmd
}

// planFlags are the measures of a topology.
type planFlags struct {
	plan                          topology.Plan
	store, history, remember, ids string
}

func addPlanFlags(cmd *cobra.Command) *planFlags {
	f := &planFlags{plan: topology.Default()}
	flags, p := cmd.Flags(), &f.plan
	flags.StringVar(&p.Prefix, "prefix", p.Prefix, "what subjects begin with, and streams in capitals (mq.nats.prefix)")
	flags.StringVar(&p.Bucket, "bucket", p.Bucket, "the bucket of leases (coord.nats.bucket)")
	flags.StringVar(&p.IDs, "ids-bucket", p.IDs, "the bucket of seen ids (dedupe.nats.bucket), where dedupe.backend is nats")
	flags.StringVar(&f.ids, "ids-size", units.FormatSize(p.IDsBytes), "what the bucket of seen ids may hold")
	flags.IntVar(&p.Partitions, "partitions", p.Partitions, "partitions of the queue (mq.nats.partitions)")
	flags.IntVar(&p.Shards, "shards", p.Shards, "shards of each partition (mq.nats.shards)")
	flags.IntVar(&p.Replicas, "replicas", p.Replicas, "servers that hold each stream: 1, 3 or 5")
	flags.StringVar(&f.store, "file-store", units.FormatSize(p.FileStore), "what each server may store; the streams fit")
	flags.StringVar(&f.history, "history-age", units.FormatDuration(p.HistoryAge), "how long histories are kept: the longest gap window")
	flags.StringVar(&f.remember, "duplicate-window", units.FormatDuration(p.DuplicateWindow), "how long a message is known by its id")
	return f
}

// topology makes what the flags ask for.
func (f *planFlags) topology() (topology.Topology, error) {
	var err error
	for flag, at := range map[string]*int64{"file-store": &f.plan.FileStore, "ids-size": &f.plan.IDsBytes} {
		size := map[string]string{"file-store": f.store, "ids-size": f.ids}[flag]
		// 100Gi is what Kubernetes says for 100GiB.
		if strings.HasSuffix(size, "i") {
			size += "B"
		}
		if *at, err = units.ParseSize(size); err != nil {
			return topology.Topology{}, &usageError{fmt.Errorf("--%s: %w", flag, err)}
		}
	}
	for flag, at := range map[string]*time.Duration{"history-age": &f.plan.HistoryAge, "duplicate-window": &f.plan.DuplicateWindow} {
		text := map[string]string{"history-age": f.history, "duplicate-window": f.remember}[flag]
		if *at, err = units.ParseDuration(text); err != nil {
			return topology.Topology{}, &usageError{fmt.Errorf("--%s: %w", flag, err)}
		}
	}
	if err := f.plan.Check(); err != nil {
		return topology.Topology{}, &usageError{err}
	}
	return topology.Of(f.plan), nil
}

func newMQManifests(t *terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "manifests",
		Short: "Print the streams, durables and the bucket of a NATS cluster",
		Long: `Prints what the operator of a NATS cluster makes for WaveHouse: as resources of
the JetStream controller (nack), as a script around the nats command line, as the
requests to JetStream in JSON, or as values of the Helm chart for the servers
themselves. The streams are sized to fit --file-store on each server, where there
are as many servers as replicas.`,
		Args: cobra.NoArgs,
	}
	plan := addPlanFlags(cmd)
	format := cmd.Flags().String("format", "nack", "how to print: nack, nats-cli, json or helm-values")
	cmd.RunE = func(*cobra.Command, []string) error {
		all, err := plan.topology()
		if err != nil {
			return err
		}
		print, known := map[string]func() string{
			"nack": all.Nack, "nats-cli": all.Script, "json": all.JSON,
			"helm-values": func() string { return all.Values(plan.plan) },
		}[*format]
		if !known {
			return &usageError{fmt.Errorf("--format %q: want nack, nats-cli, json or helm-values", *format)}
		}
		t.printf("%s", print())
		return nil
	}
	return cmd
}

func newMQPermissions(t *terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "permissions",
		Short: "Print exactly what the NATS user of WaveHouse may do",
		Long: `Prints the permissions of the user that WaveHouse connects as: all that it needs,
and nothing that makes, changes, purges or deletes what is the operator's. The
text is part of a NATS server's configuration; json is for other tools.`,
		Args: cobra.NoArgs,
	}
	plan := addPlanFlags(cmd)
	format := cmd.Flags().String("format", "conf", "how to print: conf or json")
	cmd.RunE = func(*cobra.Command, []string) error {
		all, err := plan.topology()
		if err != nil {
			return err
		}
		switch may := topology.PermissionsOf(all); *format {
		case "conf":
			t.printf("%s", may.Conf())
		case "json":
			t.printf("%s", may.JSON())
		default:
			return &usageError{fmt.Errorf("--format %q: want conf or json", *format)}
		}
		return nil
	}
	return cmd
}

// natsConfig reads the boot configuration as far as it is about the cluster.
func natsConfig(t *terminal) (*config.Config, error) {
	boot, _, err := config.Load(t.env, map[string]string{"mq.backend": "nats", "coord.backend": "nats", "dedupe.pebble.single_replica": "true", "settings.dir": "."})
	return boot, err
}

func newMQCheck(t *terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Hold a NATS cluster against what the queue needs",
		Long: `Connects as the server would (mq.nats.* of the boot configuration) and prints
every finding. Exit code 0 means that nothing required is missing, 1 that something
is, or that the cluster cannot be asked.`,
		Args: cobra.NoArgs,
	}
	asJSON := formatFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		boot, err := natsConfig(t)
		if err != nil {
			return err
		}
		report, err := app.CheckNATS(cmd.Context(), boot)
		if err != nil {
			return err
		}
		if *asJSON {
			findings := report.Findings
			if findings == nil {
				findings = []topology.Finding{}
			}
			if err := t.json(findings); err != nil {
				return err
			}
		} else {
			for _, f := range report.Findings {
				t.printf("%s\n", f)
			}
		}
		if err := report.Err(); err != nil {
			return &silentError{err}
		}
		t.sayf("the cluster has all that is required")
		return nil
	}
	return cmd
}

func newMQApply(t *terminal) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Make the streams, durables and the bucket on a development cluster",
		Long: `Makes, or changes, what 'wavehouse mq manifests' prints, on the cluster that
mq.nats.* of the boot configuration names. It is for development only: a cluster
that holds rows is changed by its operator, who knows what a change of a stream
costs. It asks for --development to be sure.`,
		Args: cobra.NoArgs,
	}
	plan := addPlanFlags(cmd)
	sure := cmd.Flags().Bool("development", false, "the cluster is for development, and holds no row that matters")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !*sure {
			return &usageError{errors.New("apply is for development clusters: say so with --development, or give the operator what 'wavehouse mq manifests' prints")}
		}
		all, err := plan.topology()
		if err != nil {
			return err
		}
		boot, err := natsConfig(t)
		if err != nil {
			return err
		}
		if err := app.ApplyNATS(cmd.Context(), boot, all); err != nil {
			return err
		}
		t.sayf("made %d partitions of %d shards (for development)", plan.plan.Partitions, plan.plan.Shards)
		return nil
	}
	return cmd
}
