package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/wavehouse/wavehouse/internal/strictjson"
)

// Compile checks doc and compiles it. roles are those of roles.json; nil leaves
// the roles unchecked. All faults are returned at once, each with its JSON path;
// the policy is nil when there is one. A finding without a line is placed by the
// caller, who knows the file. A warning never stands in the way of adoption.
func Compile(doc *Document, roles []string) (p *Policy, faults, warnings []strictjson.Fault) {
	if doc == nil {
		doc = &Document{}
	}
	c := newCompiler(doc, roles)
	c.roleNames(doc)
	for _, table := range slices.Sorted(maps.Keys(doc.Tables)) {
		c.table(table, doc.Tables[table])
	}
	if !c.policy.adopted {
		c.warn("", "no policy: every request for data is denied, the admin role's included")
	}
	if len(c.faults) > 0 {
		return nil, c.faults, c.warnings
	}
	return c.policy, nil, c.warnings
}

type compiler struct {
	roles    []string // nil for any
	policy   *Policy
	faults   []strictjson.Fault
	warnings []strictjson.Fault
}

func newCompiler(doc *Document, roles []string) *compiler {
	return &compiler{roles: roles, policy: &Policy{
		adopted:   doc.DefaultRole != nil || doc.AdminRole != nil || doc.Tables != nil,
		adminRole: DefaultAdminRole,
		tables:    make(map[string]map[string]entry, len(doc.Tables)),
	}}
}

func (c *compiler) fault(path, format string, args ...any) {
	c.faults = append(c.faults, strictjson.Fault{Path: path, Message: fmt.Sprintf(format, args...)})
}

func (c *compiler) warn(path, format string, args ...any) {
	c.warnings = append(c.warnings, strictjson.Fault{Path: path, Message: fmt.Sprintf(format, args...)})
}

// roleNames reads default_role and admin_role. An empty admin role would make
// an administrator of everyone without a token, so it is refused.
func (c *compiler) roleNames(doc *Document) {
	if doc.AdminRole != nil {
		c.policy.adminRole = *doc.AdminRole
		if *doc.AdminRole == "" {
			c.fault("admin_role", "the admin role must have a name; leave the key out for %q", DefaultAdminRole)
		} else {
			c.role("admin_role", *doc.AdminRole)
		}
	}
	if doc.DefaultRole == nil || *doc.DefaultRole == "" {
		return
	}
	c.policy.defaultRole = *doc.DefaultRole
	c.role("default_role", *doc.DefaultRole)
	if c.policy.defaultRole == c.policy.adminRole {
		c.warn("default_role", "the default role is the admin role: every request without a token may read and insert everything")
	}
}

func (c *compiler) role(path, name string) {
	if c.roles != nil && name != DefaultAdminRole && !slices.Contains(c.roles, name) {
		c.fault(path, "role %q is not in roles.json", name)
	}
}

func (c *compiler) table(name string, doc TableDocument) {
	path := strictjson.Join("tables", name)
	entries := make(map[string]entry, len(doc))
	for _, role := range slices.Sorted(maps.Keys(doc)) {
		entries[role] = c.entry(strictjson.Join(path, role), role, doc[role])
	}
	c.policy.tables[name] = entries
}

func (c *compiler) entry(path, role string, doc EntryDocument) entry {
	c.role(path, role)
	if role == c.policy.adminRole {
		c.warn(path, "the admin role may do everything already: this entry has no effect")
	}
	if doc.Select == nil && doc.Insert == nil {
		c.warn(path, "this entry grants nothing: it has neither select nor insert")
	}
	return entry{
		selects: c.selects(strictjson.Join(path, "select"), role, doc.Select),
		inserts: c.inserts(strictjson.Join(path, "insert"), doc.Insert),
	}
}

func (c *compiler) selects(path, role string, doc *SelectDocument) *SelectGrant {
	if doc == nil {
		return nil
	}
	filter := c.filter(strictjson.Join(path, "filter"), doc.Filter)
	c.columns(path, doc.AllowColumns, doc.DenyColumns)
	c.aggregations(strictjson.Join(path, "allowed_aggregations"), doc.AllowedAggregations)
	c.aggregations(strictjson.Join(path, "denied_aggregations"), doc.DeniedAggregations)
	g := newSelectGrant(role, doc, filter)
	if g.columns.none() {
		c.warn(path, "the role may read no column, so it may not read the table at all")
	}
	return g
}

func (c *compiler) inserts(path string, doc *InsertDocument) *InsertGrant {
	if doc == nil {
		return nil
	}
	checks := c.checks(strictjson.Join(path, "check"), doc.Check)
	c.columns(path, doc.AllowColumns, doc.DenyColumns)
	g := newInsertGrant(doc, checks)
	if g.columns.none() {
		c.warn(path, "the role may insert no column, so it may not insert into the table at all")
	}
	return g
}

func (c *compiler) columns(path string, allow, deny []string) {
	c.columnNames(strictjson.Join(path, "allow_columns"), allow)
	c.columnNames(strictjson.Join(path, "deny_columns"), deny)
}

func (c *compiler) columnNames(path string, names []string) {
	for i, name := range names {
		if name == "" {
			c.fault(strictjson.Index(path, i), "a column must have a name")
		}
	}
}

func (c *compiler) aggregations(path string, names []string) {
	for i, name := range names {
		if !knownAggregation(name) {
			c.fault(strictjson.Index(path, i), "unknown aggregation %q: want one of %s", name, strings.Join(Aggregations(), ", "))
		}
	}
}
