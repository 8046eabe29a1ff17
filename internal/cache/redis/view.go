package redis

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// maxPrimaries bounds the primaries of a cluster.
const maxPrimaries = 1000

// errPrimaries: they are too many to ask each of them for its history.
var errPrimaries = errors.New("WHMANY the cluster has more than 1000 primaries")

// view are the histories of the servers that a process tells of its writes and
// believes: one, or those of all primaries of a cluster. Around a failover one process
// may see the primary before and another the one after it, neither of which knows. So
// they say which they see, and trust nobody who sees others.
type view struct {
	histories []string // sorted
	digest    string   // the same for the same histories; "" outside of clusters
}

func (v view) has(history string) bool {
	_, ok := slices.BinarySearch(v.histories, history)
	return ok
}

// primary is what one answered last, and when.
type primary struct {
	history string
	at      time.Time
}

// survey asks each primary of the cluster for its history. One that does not answer
// keeps the history that it had, since nobody is harmed: what it is not told of is
// pending, and what another is told of in its place is not in view.
func (c *Cache) survey(ctx context.Context, cluster *goredis.ClusterClient) error {
	f := &c.fleet
	within, cancel := context.WithTimeout(ctx, c.o.OpTimeout)
	defer cancel()
	began := time.Now()
	var mu sync.Mutex
	now := map[string]primary{}
	err := cluster.ForEachMaster(within, func(ctx context.Context, server *goredis.Client) error {
		addr := server.Options().Addr
		history, err := c.scripts.history.Run(ctx, server, nil).Text()
		mu.Lock()
		defer mu.Unlock()
		p := primary{history, began}
		if before := f.primaries[addr]; err != nil {
			p = before
		}
		if began.Sub(p.at) < c.o.Absence {
			now[addr] = p
		}
		return nil
	})
	c.metrics.observe("survey", time.Since(began), err)
	switch {
	case err != nil:
		return nil // no node says who they are: the view stays, and the lease will say why
	case len(now) > maxPrimaries:
		c.breaker.failed(errPrimaries, time.Now())
		return errPrimaries
	}
	f.primaries = now
	var v view
	for _, p := range now {
		v.histories = append(v.histories, p.history)
	}
	slices.Sort(v.histories)
	sum := sha256.Sum256([]byte(strings.Join(v.histories, " ")))
	v.digest = hex.EncodeToString(sum[:16])
	f.mu.Lock()
	defer f.mu.Unlock()
	if v.digest != f.view.digest {
		f.view = v
		f.move()
	}
	return nil
}
