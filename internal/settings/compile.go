package settings

import (
	"fmt"
	"slices"

	"github.com/wavehouse/wavehouse/internal/pipes"
	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/strictjson"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Snapshot is what one tenant is served by: four files read at one moment. It
// is immutable; a request takes its tenant's once and keeps it to the end.
type Snapshot struct {
	Tenant tenant.ID
	// Config, Policy and Pipes are shared with tenants that have the same files.
	Config *Config
	Policy *policy.Policy
	// Pipes are those of pipes.json.
	Pipes *pipes.Set
	// Roles are those of roles.json, in its order.
	Roles []string
	// Hash tells the content of the four files from any other: replicas with
	// the same files have the same hash.
	Hash string

	document *policy.Document
	places   map[string]Place
}

// Place returns where the limit of a key was written; false for one that was not.
func (s *Snapshot) Place(key string) (Place, bool) {
	at, ok := s.places[key]
	return at, ok
}

// PolicyDocument returns policies.json as it was written, for a snapshot of
// Validate; a Registry's snapshots do not keep it and return nil. It is shared
// and must not be changed.
func (s *Snapshot) PolicyDocument() *policy.Document { return s.document }

// compiler judges the four files of one tenant. A file with faults is judged as
// far as it was read, so that everything wrong is found at once.
type compiler struct {
	content content
	docs    documents
	sources []*source
	policy  *policy.Policy
	pipeSet *pipes.Set
	// rolesKnown are those of roles.json; nil when it could not be read, so that a
	// role that it does not name may only follow from that.
	rolesKnown []string
}

// compile turns what was read to a tenant's snapshot; it is nil when there is an
// error among the findings.
func compile(id tenant.ID, c content) (*Snapshot, []Finding) {
	k := &compiler{content: c, docs: documents{config: DefaultConfig()}}
	k.roles()
	k.config()
	k.policies()
	k.pipes()
	findings := slices.Clone(c.findings)
	for _, s := range k.sources {
		findings = append(findings, s.findings...)
	}
	sortFindings(findings)
	findings = bounded(findings)
	if HasErrors(findings) {
		return nil, findings
	}
	config := k.docs.config // without the other documents behind it
	return &Snapshot{
		Tenant: id, Config: &config, Policy: k.policy, Pipes: k.pipeSet, Roles: k.docs.roles.Roles,
		Hash: c.generation(), document: &k.docs.policies, places: k.places(),
	}, findings
}

func (k *compiler) roles() {
	s := open(k, fileRoles, roleFields, &k.docs.roles)
	if s == nil {
		return
	}
	if len(s.unread) == 0 || s.doc.Has("roles") && !s.follows("roles") {
		k.rolesKnown = append([]string{}, k.docs.roles.Roles...)
	}
	seen := map[string]bool{}
	for i, role := range k.docs.roles.Roles {
		path := strictjson.Index("roles", i)
		switch {
		case role == "":
			s.error(path, "a role must have a name")
		case seen[role]:
			s.error(path, fmt.Sprintf("the role %q is named twice", role))
		}
		seen[role] = true
	}
}

func (k *compiler) config() {
	if s := open(k, fileConfig, keys(), &k.docs.config); s != nil {
		checkConfig(s, &k.docs.config)
	}
}

func (k *compiler) policies() {
	s := open(k, filePolicies, policy.Fields(), &k.docs.policies)
	if s == nil {
		return
	}
	compiled, faults, warnings := policy.Compile(&k.docs.policies, k.rolesKnown)
	s.add(SeverityError, faults)
	s.add(SeverityWarning, warnings)
	k.policy = compiled
}

func (k *compiler) pipes() {
	s := open(k, filePipes, pipes.Fields(), &k.docs.pipes)
	if s == nil {
		return
	}
	compiled, faults, warnings := pipes.Compile(&k.docs.pipes, k.rolesKnown, s.doc.Has)
	s.add(SeverityError, faults)
	s.add(SeverityWarning, warnings)
	k.pipeSet = compiled
	k.operatorViews(s)
}
