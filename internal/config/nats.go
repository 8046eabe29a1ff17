package config

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// nats holds what is said of an operator's NATS cluster against itself, before
// anybody dials.
func (l *loader) nats() {
	n := l.config.MQ.NATS
	if len(n.URLs) == 0 {
		l.faultf("mq.nats.urls: required; name the servers, like nats://host:4222")
	}
	for _, text := range n.URLs {
		l.natsURL(text)
	}
	name := regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	for key, value := range map[string]string{"mq.nats.prefix": n.Prefix, "coord.nats.bucket": l.config.Coord.NATS.Bucket, "dedupe.nats.bucket": l.config.Dedupe.NATS.Bucket} {
		if !name.MatchString(value) {
			l.faultf("%s: %q: want letters, digits, _ and -", key, value)
		}
	}
	var ways []string
	for _, way := range [][2]string{{"mq.nats.user", n.User}, {"mq.nats.nkey_file", n.NKeyFile}, {"mq.nats.creds_file", n.CredsFile}} {
		if way[1] != "" {
			ways = append(ways, way[0])
		}
	}
	if len(ways) > 1 {
		l.faultf("%s: set one of them", strings.Join(ways, " and "))
	}
	l.together("mq.nats.user", n.User, "mq.nats.password_file", n.PasswordFile)
	l.together("mq.nats.tls.cert_file", n.TLS.CertFile, "mq.nats.tls.key_file", n.TLS.KeyFile)
	secret := n.TLS != MQNATSTLS{} || slices.ContainsFunc(n.URLs, func(u string) bool { return strings.HasPrefix(u, "tls://") })
	if n.User != "" && !secret {
		l.warnf("mq.nats.user: the password crosses the network in clear; set mq.nats.tls.enabled where the servers speak TLS")
	}
}

// together refuses one of two keys without the other.
func (l *loader) together(a, valueA, b, valueB string) {
	switch {
	case valueA != "" && valueB == "":
		l.faultf("%s: needs %s beside it", a, b)
	case valueA == "" && valueB != "":
		l.faultf("%s: needs %s beside it", b, a)
	}
}

// natsURL shows nothing of a URL that may hold a password.
func (l *loader) natsURL(text string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "nats" && u.Scheme != "tls":
		l.faultf("mq.nats.urls: want URLs like nats://host:4222 or tls://host:4222")
	case u.User != nil:
		l.faultf("mq.nats.urls: the URL of %s holds credentials; use mq.nats.user and mq.nats.password_file, mq.nats.nkey_file or mq.nats.creds_file", u.Host)
	case u.Path != "" && u.Path != "/" || u.RawQuery != "":
		l.faultf("mq.nats.urls: %q: want nothing behind the port", text)
	}
}
