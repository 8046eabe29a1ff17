package config

import (
	"slices"
	"strings"
)

// section is the place of the settings of one backend, "mq.nats", where the
// backend is not part of this version and so its keys are not known.
type section struct {
	name, layer, backend string
}

// unused is something that was set for a backend. what names it and its place.
type unused struct {
	what    string
	section section
}

// sections lists the backends that can be named but are not part of this
// version.
func sections() []section {
	return []section{
		{"mq.nats", "mq", "nats"},
		{"coord.nats", "coord", "nats"},
		{"cache.redis", "cache", "redis"},
		{"dedupe.dynamodb", "dedupe", "dynamodb"},
	}
}

// sectionOf finds the section that name, a key or a section in dots, lies in.
func sectionOf(name string) (section, bool) {
	for _, s := range sections() {
		if name == s.name || strings.HasPrefix(name, s.name+".") {
			return s, true
		}
	}
	return section{}, false
}

func (l *loader) backendOf(layer string) string {
	k, _ := l.byName(layer + ".backend")
	return k.text()
}

// missingBackend reports whether a backend that can be named is not part of
// this version.
func missingBackend(layer, backend string) bool {
	_, missing := sectionOf(layer + "." + backend)
	return missing
}

// envSection turns a variable's name to the section that it would lie in:
// WH_MQ_NATS_URL to mq.nats.url.
func envSection(name string) string {
	parts := strings.SplitN(strings.ToLower(strings.TrimPrefix(name, "WH_")), "_", 3)
	return strings.Join(parts, ".")
}

// backends refuses what this version does not have, and the combinations of
// roles and backends that cannot work, naming the key to change.
func (l *loader) backends() {
	c := l.config
	for _, layer := range []string{"mq", "cache", "dedupe", "coord"} {
		if backend := l.backendOf(layer); missingBackend(layer, backend) {
			l.faultf("%s.backend: this version has no %s backend yet; use %s", layer, backend, l.supported(layer))
		}
	}
	api, ingest, sweeper := c.HasRole(RoleAPI), c.HasRole(RoleIngest), c.HasRole(RoleSweeper)
	nats := c.MQ.Backend == "nats"
	switch {
	case !nats && !(api && ingest && sweeper):
		l.faultf("roles: the embedded queue lives in one process, which needs all of api, ingest and sweeper; name all three, or change mq.backend")
	case nats && sweeper && !api && !ingest:
		l.faultf("roles: sweeper alone has nothing to do on nats, whose streams expire by themselves; add api or ingest")
	case nats && ingest && c.Coord.Backend == "local":
		l.faultf("coord.backend: ingest on nats shares its work through leases; set it to nats")
	}
	if nats && api != ingest && c.Cache.Backend == "local" {
		l.faultf("cache.backend: with api and ingest apart, a local cache would never hear of new rows; set it to redis")
	}
	l.unusedSections()
}

func (l *loader) supported(layer string) string {
	k, _ := l.byName(layer + ".backend")
	i := slices.IndexFunc(k.choices, func(b string) bool { return !missingBackend(layer, b) })
	return k.choices[i]
}

// unusedSections warns of settings beside another backend than the selected.
func (l *loader) unusedSections() {
	if origin := l.config.origins["cache.local.max_bytes"]; origin != "" {
		l.unused = append(l.unused, unused{"cache.local.max_bytes", section{"cache.local", "cache", "local"}})
	}
	for _, u := range l.unused {
		if selected := l.backendOf(u.section.layer); selected != u.section.backend {
			l.warnf("%s is not used: %s.backend is %q", u.what, u.section.layer, selected)
		}
	}
}
