package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// refusals are replies that will not change by asking again at once: they open
// the breaker. What an operator can do about them is said in the log and in
// /readyz.
var refusals = [...]struct{ reply, means string }{
	{"READONLY", "the server is a replica: give the address of the primary, or use mode sentinel or cluster"},
	{"MOVED", "the server is a node of a cluster: set cache.redis.mode to cluster"},
	{"CROSSSLOT", "the server is a node of a cluster: set cache.redis.mode to cluster"},
	{"CLUSTERDOWN", "the cluster does not serve this slot"},
	{"ERR This instance has cluster support disabled", "the server is not part of a cluster: set cache.redis.mode to standalone or sentinel"},
	{"OOM", "the server is full: raise its maxmemory or set maxmemory-policy to allkeys-lru"},
	{"NOAUTH", "the server asks for a password: set cache.redis.password"},
	{"WRONGPASS", "the user or the password is wrong: see cache.redis.username and cache.redis.password"},
	{"ERR invalid password", "the password is wrong: see cache.redis.password"},
	{"ERR AUTH", "the server knows no password: leave cache.redis.password empty"},
	{"NOPERM", "the user lacks permissions: see the ACL rule in docs/redis.md"},
	{"ERR ACL failure in script", "the user lacks permissions: see the ACL rule in docs/redis.md"},
	{"ERR The user executing the script can't run this command", "the user lacks permissions: see the ACL rule in docs/redis.md"},
	{"LOADING", "the server is loading its data"},
	{"MASTERDOWN", "the server is a replica that has lost its primary"},
	{"MISCONF", "the server refuses writes since it cannot save: see its log"},
	{"NOREPLICAS", "the server refuses writes since it has too few replicas in touch"},
	{"BUSY", "the server is busy with a script of somebody else"},
	{"ERR DB index", "the server has no such database: see cache.redis.db"},
	{"ERR SELECT", "the server has database 0 only: see cache.redis.db"},
	{"ERR unknown command", "the server lacks a command that is needed: is it a sentinel? then set cache.redis.mode to sentinel"},
	{"ERR the server does not tell its master_replid", "INFO replication names no master_replid, without which a failover cannot be told: this server cannot be used"},
	{"WHMANY", "give the cache a cluster of its own, with fewer primaries"},
	{"redis: all sentinels specified in configuration are unreachable", "no sentinel names a primary: see cache.redis.addresses and cache.redis.master"},
}

// refused returns what a refusing reply means, "" for any other error.
func refused(err error) string {
	for _, line := range strings.Split(err.Error(), "\n") {
		for _, r := range refusals {
			if strings.HasPrefix(line, r.reply) {
				return r.means
			}
		}
	}
	return ""
}

// problem is the error for people: what it means, and the server's own words.
func problem(err error) error {
	var network net.Error
	var reply goredis.Error
	switch means := refused(err); {
	case means != "":
		return fmt.Errorf("%s (%w)", means, err)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return fmt.Errorf("the server does not answer in time: %w", err)
	case errors.As(err, &reply):
		return fmt.Errorf("the server refuses: %w", err)
	}
	return fmt.Errorf("the server cannot be reached: %w", err)
}
