package config

import (
	"slices"
	"strings"
)

// missing lists the backends that can be named but are not part of this version,
// by the section of their own keys: "<layer>.<backend>".
var missing = []string{"cache.redis"}

// unused is something that was set for a backend. what names it and its place.
type unused struct{ what, section string }

// sectionOf finds the section of a backend that this version lacks in which
// name, a key or a section in dots, lies; "" for none.
func sectionOf(name string) string {
	for _, section := range missing {
		if name == section || strings.HasPrefix(name, section+".") {
			return section
		}
	}
	return ""
}

// envSection turns a variable's name to the section that it would lie in:
// WH_MQ_NATS_URL to mq.nats.url.
func envSection(name string) string {
	return strings.Join(strings.SplitN(strings.ToLower(strings.TrimPrefix(name, "WH_")), "_", 3), ".")
}

// backends refuses what this version does not have, and the combinations of
// roles and backends that cannot work, naming the key to change.
func (l *loader) backends() {
	c := l.config
	for _, section := range missing {
		layer, backend, _ := strings.Cut(section, ".")
		if f, _ := l.keys.Lookup(layer + ".backend"); l.selected(section) {
			l.faultf("%s: this version has no %s backend yet; use %s", f.Key, backend, f.Default)
		}
	}
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
		l.warnf("stream.id_key is not set: where several processes serve requests, a client that comes back to another is told of a gap in its stream")
	}
	l.dedupe(nats)
	l.unusedSections()
}

// dedupe holds the store of seen ids against the queue: ids that several
// processes ask for are in a store that they share.
func (l *loader) dedupe(shared bool) {
	switch d := l.config.Dedupe; d.Backend {
	case "pebble":
		if shared && !d.Pebble.SingleReplica {
			l.faultf("dedupe.backend: pebble keeps the ids of one process, and several may share the queue: choose another, or set dedupe.pebble.single_replica where there is only this one")
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
		if l.ofBackend(f.Key) && l.keys.Text(l.config, f.Key) != l.keys.Text(Default(), f.Key) {
			l.unused = append(l.unused, unused{f.Key, f.Key[:strings.LastIndex(f.Key, ".")]})
		}
	}
	for _, u := range l.unused {
		if layer, _, _ := strings.Cut(u.section, "."); !l.selected(u.section) {
			l.warnf("%s is not used: %s.backend is %q", u.what, layer, l.keys.Text(l.config, layer+".backend"))
		}
	}
}
