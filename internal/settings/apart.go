package settings

import (
	"maps"
	"slices"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// TokenKey returns what the HMAC tokens of a tenant are verified by: equal for
// tenants of equal keys, "" when it takes none. It gives no key away.
type TokenKey func(id tenant.ID) string

// Apart finds the tenants that would take a token made for another: one verified
// by the same key, where no claim, audience or issuer that no other has says
// whose it is.
func Apart(tenants map[tenant.ID]*Snapshot, key TokenKey) map[tenant.ID]Finding {
	sharing := map[string][]tenant.ID{}
	for id, s := range tenants {
		if k := tokenKey(s, key); k != "" {
			sharing[k] = append(sharing[k], id)
		}
	}
	found := map[tenant.ID]Finding{}
	for _, ids := range sharing {
		for _, id := range ids {
			if other, alike := takenBy(tenants, id, ids); alike {
				found[id] = notApart(tenants[id], id, other)
			}
		}
	}
	return found
}

func tokenKey(s *Snapshot, key TokenKey) string {
	if s.Config.Auth.JWKSURL != "" {
		return "url " + s.Config.Auth.JWKSURL
	}
	if k := key(s.Tenant); k != "" {
		return "key " + k
	}
	return ""
}

// takenBy returns a tenant whose tokens the tenant would take.
func takenBy(tenants map[tenant.ID]*Snapshot, id tenant.ID, sharing []tenant.ID) (other tenant.ID, alike bool) {
	own := tenants[id].Config.Auth
	if own.TenantClaim != "" {
		return "", false
	}
	audience, issuer := own.Audience != "", own.Issuer != ""
	for _, o := range slices.Sorted(slices.Values(sharing)) {
		if o == id {
			continue
		}
		auth := tenants[o].Config.Auth
		audience = audience && auth.Audience != own.Audience
		issuer = issuer && auth.Issuer != own.Issuer
		if !audience && !issuer {
			return o, true
		}
	}
	return "", false
}

func notApart(s *Snapshot, id, other tenant.ID) Finding {
	by := "auth.jwt_secret"
	if s.Config.Auth.JWKSURL != "" {
		by = "the same auth.jwks_url"
	}
	return Finding{Severity: SeverityError, File: fileConfig, Path: "auth", Message: "a token of tenant " + other.String() +
		" would count for tenant " + id.String() + ", since both are verified by " + by +
		": set auth.tenant_claim, an auth.audience or auth.issuer that no other tenant has, or give the tenant a key of its own" +
		" (auth.jwt_secrets_file of the boot configuration, or auth.jwks_url)"}
}

// tellApart rejects the tenants of a nested directory that are not told apart.
func (r reading) tellApart(key TokenKey) {
	if r.shape == ShapeNested {
		tellApart(r.states, key, nil)
	}
}

// tellApart rejects the tenants that are not told apart from others, only that
// one where one is named. What they are by themselves is kept.
func tellApart(states map[tenant.ID]state, key TokenKey, only *tenant.ID) {
	if key == nil {
		return
	}
	snapshots := map[tenant.ID]*Snapshot{}
	for id, s := range states {
		if only == nil {
			s = s.alone()
			states[id] = s
		}
		if s.snapshot != nil {
			snapshots[id] = s.snapshot
		}
	}
	found := Apart(snapshots, key)
	for _, id := range slices.Sorted(maps.Keys(found)) {
		if only != nil && *only != id {
			continue
		}
		own := states[id]
		findings := []Finding{found[id]}
		lead(findings, id)
		states[id] = state{findings: append(slices.Clone(own.findings), findings...), outcome: own.outcome, itself: &own}
	}
}
