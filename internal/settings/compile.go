package settings

import (
	"fmt"
	"slices"
	"time"

	"github.com/wavehouse/wavehouse/internal/pipes"
	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/strictjson"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// compiler judges the four files of one tenant.
type compiler struct {
	sources map[string]*source
	docs    documents
	policy  *policy.Policy
	pipeSet *pipes.Set
	// rolesKnown: roles.json could be read, so a role that it does not name is
	// a fault and not a consequence of one.
	rolesKnown bool
}

// compile turns what was read to a tenant's snapshot; it is nil when there is an
// error among the findings.
func compile(id tenant.ID, c content, now time.Time) (*Snapshot, []Finding) {
	k := &compiler{sources: map[string]*source{}, docs: documents{config: DefaultConfig()}}
	for name, data := range c.files {
		k.sources[name] = &source{name: name, data: data}
	}
	k.roles()
	k.config()
	k.policies()
	k.pipes()
	findings := slices.Clone(c.findings)
	for _, name := range fileNames() {
		if s := k.sources[name]; s != nil {
			findings = append(findings, s.findings...)
		}
	}
	sortFindings(findings)
	findings = bounded(findings)
	if HasErrors(findings) {
		return nil, findings
	}
	return &Snapshot{
		Tenant: id, Config: k.docs.config, Policy: k.policy, Pipes: k.pipeSet, Roles: k.docs.roles.Roles,
		Hash: c.generation(), AdoptedAt: now, document: &k.docs.policies,
	}, findings
}

// open decodes a file. It returns nil when the file is missing or cannot be
// judged any further.
func (k *compiler) open(name string, into any) *source {
	s := k.sources[name]
	if s == nil || !s.decode(into) {
		return nil
	}
	return s
}

func (k *compiler) roles() {
	s := k.open(fileRoles, &k.docs.roles)
	if s == nil {
		return
	}
	k.rolesKnown = true
	roles := k.docs.roles.Roles
	if len(roles) > maxRoles {
		s.error("roles", fmt.Sprintf("want at most %d roles, not %d", maxRoles, len(roles)))
		return
	}
	seen := map[string]bool{}
	for i, role := range roles {
		path := strictjson.Index("roles", i)
		switch {
		case role == "":
			s.error(path, "a role must have a name")
		case len(role) > maxRoleName:
			s.error(path, fmt.Sprintf("a role's name has at most %d bytes", maxRoleName))
		case seen[role]:
			s.error(path, fmt.Sprintf("the role %q is named twice", role))
		}
		seen[role] = true
	}
}

func (k *compiler) config() {
	s := k.open(fileConfig, &k.docs.config)
	if s == nil {
		return
	}
	checkConfig(s, &k.docs.config)
}

func (k *compiler) policies() {
	s := k.open(filePolicies, &k.docs.policies)
	if s == nil {
		return
	}
	roles := k.docs.roles.Roles
	if !k.rolesKnown {
		roles = rolesUsed(&k.docs.policies)
	}
	compiled, faults, warnings := policy.Compile(&k.docs.policies, roles)
	s.findings = append(s.findings, fromFaults(SeverityError, s.name, s.doc, faults)...)
	s.findings = append(s.findings, fromFaults(SeverityWarning, s.name, s.doc, warnings)...)
	k.policy = compiled
}

// rolesUsed returns every role that the policy names.
func rolesUsed(doc *policy.Document) []string {
	var roles []string
	for _, name := range []*string{doc.DefaultRole, doc.AdminRole} {
		if name != nil {
			roles = append(roles, *name)
		}
	}
	for _, table := range doc.Tables {
		for role := range table {
			roles = append(roles, role)
		}
	}
	return roles
}
