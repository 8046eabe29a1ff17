package app

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/wavehouse/wavehouse/internal/config"
	"github.com/wavehouse/wavehouse/internal/lifetime"
	"github.com/wavehouse/wavehouse/internal/mq/nats/link"
	"github.com/wavehouse/wavehouse/internal/mq/nats/topology"
)

// clusterTimeout bounds the wait for a cluster that a command asks.
const clusterTimeout = 30 * time.Second

// applyPause is between attempts to make a topology.
const applyPause = 500 * time.Millisecond

// maxMessage is what a stream must take for one message, as WaveHouse publishes it.
const maxMessage = 1 << 20

// CheckNATS holds the cluster that the configuration names against what WaveHouse
// needs of it.
func CheckNATS(ctx context.Context, c *config.Config) (*topology.Report, error) {
	var report *topology.Report
	err := onNATS(ctx, c, func(ctx context.Context, js topology.JetStream) (err error) {
		report, err = topology.Verify(ctx, js, topology.Wanted{
			Names: natsNames(c), Partitions: c.MQ.NATS.Partitions, Shards: c.MQ.NATS.Shards,
			DuplicateWindow: max(3*c.MQ.NATS.PublishTimeout+time.Second, 2*c.Dedupe.Lease+time.Second), MaxMessage: maxMessage,
		})
		return err
	})
	return report, err
}

// ApplyNATS makes a topology on the cluster that the configuration names, as soon as
// that can be made. It is for development.
func ApplyNATS(ctx context.Context, c *config.Config, t topology.Topology) error {
	return onNATS(ctx, c, func(ctx context.Context, js topology.JetStream) error {
		for {
			err := topology.Apply(ctx, js, t)
			if err == nil {
				return nil
			}
			if !lifetime.Pause(ctx, applyPause) { // servers that have just started have to find each other
				return err
			}
		}
	})
}

func onNATS(ctx context.Context, c *config.Config, do func(context.Context, topology.JetStream) error) error {
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	nc, err := link.Dial(ctx, natsLink(c.MQ.NATS), "wavehouse-mq", slog.New(slog.DiscardHandler), link.Handlers{})
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := topology.On(nc)
	if err != nil {
		return fmt.Errorf("ask the cluster: %w", err)
	}
	return do(ctx, js)
}
