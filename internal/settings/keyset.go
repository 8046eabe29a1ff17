package settings

import (
	"net"
	"net/url"
	"strconv"
	"strings"
)

// checkKeySet holds auth.jwks_url against what can be fetched. Whoever can
// change its answer on the way can make tokens, so HTTP alone is doubtful.
func checkKeySet(s *source, address string) {
	const path = "auth.jwks_url"
	if address == "" {
		return
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Hostname() == "" || !validPort(u.Port()) || (u.Scheme != "https" && u.Scheme != "http"):
		s.error(path, `want a URL like "https://id.example.com/.well-known/jwks.json"`)
	case u.User != nil:
		s.error(path, "must not hold a user name or a password")
	case u.Fragment != "":
		s.error(path, "must not hold a fragment")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		s.warn(path, "the keys travel unencrypted: whoever can change the answer can make tokens for any role")
	}
}

func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || (err == nil && n != 0)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || (ip != nil && ip.IsLoopback())
}
