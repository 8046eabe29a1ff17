package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/cache/layered"
	localcache "github.com/wavehouse/wavehouse/internal/cache/local"
	rediscache "github.com/wavehouse/wavehouse/internal/cache/redis"
	"github.com/wavehouse/wavehouse/internal/config"
	"github.com/wavehouse/wavehouse/internal/coord"
	localcoord "github.com/wavehouse/wavehouse/internal/coord/local"
	"github.com/wavehouse/wavehouse/internal/coord/natskv"
	"github.com/wavehouse/wavehouse/internal/dedupe"
	"github.com/wavehouse/wavehouse/internal/dedupe/dynamo"
	natsids "github.com/wavehouse/wavehouse/internal/dedupe/natskv"
	"github.com/wavehouse/wavehouse/internal/dedupe/pebble"
	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/embedded"
	"github.com/wavehouse/wavehouse/internal/mq/nats"
	"github.com/wavehouse/wavehouse/internal/mq/nats/link"
	"github.com/wavehouse/wavehouse/internal/mq/nats/topology"
	"github.com/wavehouse/wavehouse/internal/notice"
	localnotice "github.com/wavehouse/wavehouse/internal/notice/local"
	natsnotice "github.com/wavehouse/wavehouse/internal/notice/nats"
)

// backends are what the configuration chose, behind their contracts. This file
// alone names implementations.
type backends struct {
	queue  mq.Broker
	cache  cache.Cache
	dedupe dedupe.Store
	// idBudgets is nil for a store that has none.
	idBudgets dedupe.Budgeted
	coord     coord.Coordinator
	notices   notice.Bus
	// shared says that other processes may be at the same queue.
	shared bool

	closers []func(context.Context) error
}

// openBackends makes the backends; closeBackends ends them, after a failure too. The
// queue is opened, so that what is wrong with it refuses the start. history is for how
// long streams may ask for rows again.
func openBackends(ctx context.Context, c *config.Config, history time.Duration, logger *slog.Logger, metrics prometheus.Registerer) (b backends, err error) {
	lock, err := lockDataDir(c.DataDir)
	if err != nil {
		return b, err
	}
	b.closers = append(b.closers, func(context.Context) error { return lock.Close() })
	if err := b.openCoord(ctx, c, logger, metrics); err != nil {
		return b, err
	}
	if b.queue, err = openQueue(ctx, c, history, component(logger, "queue"), metrics, b.coord); err != nil {
		return b, err
	}
	b.closers = append(b.closers, b.queue.Close)
	if err := remembers(b.queue, c.Dedupe.Lease); err != nil {
		return b, err
	}
	results, err := openCache(c, component(logger, "cache"), metrics)
	if err != nil {
		return b, fmt.Errorf("make the cache: %w", err)
	}
	b.cache = results
	ids, err := b.openDedupe(ctx, c, component(logger, "dedupe"), metrics)
	if err != nil {
		return b, err
	}
	b.dedupe = dedupe.NewLate(ids, metrics)
	b.idBudgets, _ = ids.(dedupe.Budgeted)
	b.closers = append(b.closers, b.cache.Close, b.dedupe.Close)
	return b, nil
}

// openQueue opens the queue, so that what is wrong with it refuses the start.
func openQueue(ctx context.Context, c *config.Config, history time.Duration, logger *slog.Logger, metrics prometheus.Registerer, group nats.Group) (mq.Broker, error) {
	if n := c.MQ.NATS; c.MQ.Backend == "nats" {
		return nats.New(ctx, nats.Options{
			Link: natsLink(n), Names: natsNames(c), Partitions: n.Partitions, Shards: n.Shards, Group: group,
			PublishTimeout: n.PublishTimeout, TopologyWait: n.TopologyWait,
			// A retry may have had to wait for the lease of its ids.
			Remember:   2*c.Dedupe.Lease + time.Second,
			HistoryAge: history, Logger: logger, Registerer: metrics,
		})
	}
	queue, err := embedded.New(embedded.Options{Dir: filepath.Join(c.DataDir, "nats"), Logger: logger, Registerer: metrics})
	if err != nil {
		return nil, fmt.Errorf("open the queue in %q: %w", c.DataDir, err)
	}
	return queue, nil
}

// openCoord makes what holds leases, and what carries notices.
func (b *backends) openCoord(ctx context.Context, c *config.Config, logger *slog.Logger, metrics prometheus.Registerer) error {
	b.coord, b.notices = localcoord.New(), localnotice.New()
	b.shared = c.MQ.Backend == "nats"
	if !b.shared {
		b.closers = append(b.closers, b.coord.Close)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.MQ.NATS.TopologyWait)
	defer cancel()
	nc, err := link.Dial(ctx, natsLink(c.MQ.NATS), "wavehouse-coord", component(logger, "coord"), link.Handlers{})
	if err != nil {
		return fmt.Errorf("open the bucket of leases and notices: %w", err)
	}
	b.closers = append(b.closers, func(context.Context) error { nc.Close(); return nil })
	b.notices = natsnotice.New(natsnotice.Options{Conn: nc, Prefix: natsNames(c).Notices(), Logger: component(logger, "notices")})
	if c.Coord.Backend == "nats" {
		bucket, err := natskv.On(nc, c.Coord.NATS.Bucket)
		if err != nil {
			return fmt.Errorf("open the bucket of leases: %w", err)
		}
		b.coord = natskv.New(natskv.Options{Bucket: bucket, Instance: c.InstanceID, Logger: component(logger, "coord"), Metrics: metrics})
	}
	b.closers = append(b.closers, b.coord.Close)
	return nil
}

func natsNames(c *config.Config) topology.Names {
	names := topology.Names{Prefix: c.MQ.NATS.Prefix}
	if c.Coord.Backend == "nats" {
		names.Bucket = c.Coord.NATS.Bucket
	}
	return names
}

func natsLink(n config.MQNATS) link.Options {
	return link.Options{
		URLs: n.URLs, User: n.User, PasswordFile: n.PasswordFile, NKeyFile: n.NKeyFile, CredsFile: n.CredsFile,
		TLS: link.TLS{
			Enabled: n.TLS.Enabled, CAFile: n.TLS.CAFile, CertFile: n.TLS.CertFile, KeyFile: n.TLS.KeyFile, HandshakeFirst: n.TLS.HandshakeFirst,
		},
	}
}

// openCache makes the cache and asks nobody yet.
func openCache(c *config.Config, logger *slog.Logger, metrics prometheus.Registerer) (cache.Cache, error) {
	if c.Cache.Backend != "redis" {
		return localcache.New(localcache.Options{MaxBytes: c.Cache.Local.MaxBytes, Logger: logger, Metrics: metrics})
	}
	member, err := member(c.DataDir)
	if err != nil {
		return nil, err
	}
	r := c.Cache.Redis
	shared, err := rediscache.New(rediscache.Options{
		Mode: rediscache.Mode(r.Mode), Addresses: r.Addrs, Master: r.Master,
		Username: r.Username, Password: r.Password.Reveal(),
		SentinelUsername: r.SentinelUsername, SentinelPassword: r.SentinelPassword.Reveal(),
		DB: r.DB, Prefix: r.Prefix, OpTimeout: r.OpTimeout, Absence: r.Absence, Member: member,
		TLS: rediscache.TLS(r.TLS), Logger: logger, Metrics: metrics,
	})
	if err != nil || c.MQ.Backend != "nats" {
		return shared, err // whose processes do not tell each other of writes
	}
	near, err := localcache.New(localcache.Options{MaxBytes: nearBytes, Logger: logger, Metrics: metrics})
	if err != nil {
		return nil, err
	}
	return layered.New(near, shared), nil
}

// nearBytes bounds the cache of this process before a shared one.
const nearBytes = 16 << 20

// member names this process so that it has the same name after a restart: whoever
// has the lock of the data directory.
func member(dataDir string) (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("name this process: %w", err)
	}
	dir, err := filepath.Abs(dataDir)
	if err != nil {
		return "", fmt.Errorf("name this process: %w", err)
	}
	return host + ":" + dir, nil
}

// advice is what does not work of the backends and keeps no request from being
// answered.
func (b *backends) advice() []string {
	var all []string
	for name, of := range map[string]any{"queue": b.queue, "cache": b.cache, "notices": b.notices} {
		if s, ok := of.(interface{ Status() error }); ok {
			if err := s.Status(); err != nil {
				all = append(all, name+": "+err.Error())
			}
		}
	}
	slices.Sort(all)
	return all
}

// openDedupe makes the store of seen ids, and connects to where it is in the cluster
// of the queue.
func (b *backends) openDedupe(ctx context.Context, c *config.Config, logger *slog.Logger, metrics prometheus.Registerer) (dedupe.Store, error) {
	if d := c.Dedupe.DynamoDB; c.Dedupe.Backend == "dynamodb" {
		return dynamo.New(ctx, dynamo.Options{
			Table: d.Table, Region: d.Region, Endpoint: d.Endpoint, CreateTable: d.CreateTable,
			Lease: c.Dedupe.Lease, Logger: logger, Metrics: metrics,
		})
	}
	if c.Dedupe.Backend == "nats" {
		ctx, cancel := context.WithTimeout(ctx, c.MQ.NATS.TopologyWait)
		defer cancel()
		nc, err := link.Dial(ctx, natsLink(c.MQ.NATS), "wavehouse-dedupe", logger, link.Handlers{})
		if err != nil {
			return nil, fmt.Errorf("open the bucket of seen ids: %w", err)
		}
		b.closers = append(b.closers, func(context.Context) error { nc.Close(); return nil })
		return natsids.New(nc, natsids.Options{Bucket: c.Dedupe.NATS.Bucket, Lease: c.Dedupe.Lease, Logger: logger, Metrics: metrics})
	}
	return pebble.New(pebble.Options{
		Dir: filepath.Join(c.DataDir, "pebble"), Lease: c.Dedupe.Lease, Logger: logger, Metrics: metrics,
	}), nil
}

// remembers refuses a queue that may have forgotten a message when a retry, which
// had to wait for the lease of its ids, sends it again.
func remembers(queue mq.Publisher, lease time.Duration) error {
	if window := queue.DuplicateWindow(); window <= 2*lease {
		return fmt.Errorf("the queue forgets a message's id after %s: want more than twice dedupe.lease, which is %s", window, lease)
	}
	return nil
}

// runBackends does the housekeeping of the backends until ctx ends.
func (b *backends) runBackends(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(named("dedupe", func() error { return b.dedupe.Run(ctx) }))
	group.Go(named("cache", func() error { return b.cache.Run(ctx) }))
	group.Go(named("notices", func() error { return b.notices.Run(ctx) }))
	return group.Wait()
}

// closeBackends ends what was opened, the last first.
func (b *backends) closeBackends(ctx context.Context) error {
	var errs []error
	for _, end := range slices.Backward(b.closers) {
		errs = append(errs, end(ctx))
	}
	return errors.Join(errs...)
}
