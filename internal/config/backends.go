package config

import (
	"net"
	"slices"
	"strings"
)

// backends refuses combinations of roles and backends that cannot work, naming the
// key to change.
func (l *loader) backends() {
	c := l.config
	api, ingest, sweeper := c.HasRole(RoleAPI), c.HasRole(RoleIngest), c.HasRole(RoleSweeper)
	nats := c.MQ.Backend == "nats"
	if !nats && (!api || !ingest || !sweeper) {
		l.faultf("roles: the embedded queue lives in one process, which needs all of api, ingest and sweeper; name all three, or change mq.backend")
	}
	if !nats && c.Coord.Backend == "nats" {
		l.faultf("coord.backend: the bucket of leases is in the cluster of the queue; set mq.backend to nats, or coord.backend to local")
	}
	if nats && sweeper && !api && !ingest {
		l.faultf("roles: sweeper alone has nothing to do on nats, whose streams expire by themselves; add api or ingest")
	}
	if nats && ingest && c.Coord.Backend == "local" {
		l.faultf("coord.backend: ingest on nats shares its work through leases; set it to nats")
	}
	if nats {
		l.nats()
	}
	if nats && api && c.Cache.Backend == "local" {
		l.warnf("cache.backend is local: where several processes serve requests, each fills a cache of its own; redis is one for all")
	}
	if nats && api && c.Stream.IDKey == "" {
		l.warnf("stream.id_key is not set: where several processes serve requests, a client that comes back to another is told of a gap in its stream, and its cursors are invalid")
	}
	l.redis()
	l.dedupe(nats)
	l.unusedSections()
}

// redis holds the keys of the shared cache against each other.
func (l *loader) redis() {
	r := l.config.Cache.Redis
	if l.config.Cache.Backend != "redis" {
		return
	}
	if len(r.Addrs) == 0 {
		l.faultf("cache.redis.addrs: required; name one address of the server as host:port, or some of the cluster or the sentinels")
	}
	for _, addr := range r.Addrs {
		if _, port, err := net.SplitHostPort(addr); err != nil || port == "" {
			l.faultf("cache.redis.addrs: %q is not host:port", addr)
		}
	}
	switch {
	case r.Mode == "standalone" && len(r.Addrs) > 1:
		l.faultf("cache.redis.addrs: standalone is one server; name one address, or set cache.redis.mode to cluster or sentinel")
	case r.Mode == "sentinel" && r.Master == "":
		l.faultf("cache.redis.master: required with sentinels; name the primary as they do")
	case r.Mode == "cluster" && r.DB != 0:
		l.faultf("cache.redis.db: a cluster has database 0 only")
	}
	if (r.TLS.CertFile == "") != (r.TLS.KeyFile == "") {
		l.faultf("cache.redis.tls: cert_file and key_file go together")
	}
	if !r.TLS.Enabled && (r.TLS.CAFile != "" || r.TLS.CertFile != "" || r.TLS.ServerName != "") {
		l.warnf("cache.redis.tls.enabled is false: the other keys of cache.redis.tls are not used")
	}
	if !printable(r.Prefix) || strings.ContainsAny(r.Prefix, "{}*?[]") {
		l.faultf("cache.redis.prefix: want printable ASCII characters without spaces, braces or any of *?[]")
	}
}

// dedupe holds the store of seen ids against the queue: ids that several
// processes ask for are in a store that they share.
func (l *loader) dedupe(shared bool) {
	switch d := l.config.Dedupe; d.Backend {
	case "pebble":
		if shared && !d.Pebble.SingleReplica {
			l.faultf("dedupe.backend: pebble keeps the ids of one process, and several may share the queue: choose another, or set dedupe.pebble.single_replica where there is only this one")
		}
	case "nats":
		if !shared {
			l.faultf("dedupe.backend: the bucket of seen ids is in the cluster of the queue; set mq.backend to nats, or choose another")
		}
	case "dynamodb":
		if d.DynamoDB.Table == "" {
			l.faultf("dedupe.dynamodb.table: required; name the table of seen ids")
		}
		if d.DynamoDB.CreateTable && d.DynamoDB.Endpoint == "" {
			l.faultf("dedupe.dynamodb.create_table: it is for development, with a dedupe.dynamodb.endpoint; make the table beforehand")
		}
	}
}

// selected reports whether the backend of a section is the one of its layer.
func (l *loader) selected(section string) bool {
	layer, rest, _ := strings.Cut(section, ".")
	backend, _, _ := strings.Cut(rest, ".")
	return l.keys.Text(l.config, layer+".backend") == backend
}

// ofBackend reports whether a key is one of a backend's own: "<layer>.<backend>.…".
func (l *loader) ofBackend(key string) bool {
	layer, rest, _ := strings.Cut(key, ".")
	backend, _, below := strings.Cut(rest, ".")
	f, ok := l.keys.Lookup(layer + ".backend")
	return ok && below && slices.Contains(f.OneOf, backend)
}

// unusedSections warns of settings beside another backend than the selected.
func (l *loader) unusedSections() {
	for _, f := range l.keys {
		section := f.Key[:max(0, strings.LastIndex(f.Key, "."))]
		if l.ofBackend(f.Key) && !l.selected(section) && l.keys.Text(l.config, f.Key) != l.keys.Text(Default(), f.Key) {
			layer, _, _ := strings.Cut(section, ".")
			l.warnf("%s is not used: %s.backend is %q", f.Key, layer, l.keys.Text(l.config, layer+".backend"))
		}
	}
}
