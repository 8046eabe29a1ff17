package pipes

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wavehouse/wavehouse/internal/claim"
	"github.com/wavehouse/wavehouse/internal/excerpt"
	"github.com/wavehouse/wavehouse/internal/nearest"
	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/strictjson"
)

// Compile checks doc and compiles it. All faults are returned at once, each with
// its JSON path; the set is nil when there is one. roles are those of
// roles.json; nil leaves the roles unchecked. written reports whether the
// document has a value at a path.
func Compile(doc *Document, roles []string, written func(path string) bool) (s *Set, faults, warnings []strictjson.Fault) {
	c := &compiler{roles: roles, written: written, set: &Set{byName: map[string]*Pipe{}}}
	for i := range doc.Pipes {
		c.pipe(strictjson.Index("pipes", i), doc.Pipes[i])
	}
	if len(c.faults) > 0 {
		return nil, c.faults, c.warnings
	}
	for name := range c.set.byName {
		c.set.names = append(c.set.names, name)
	}
	slices.Sort(c.set.names)
	return c.set, nil, c.warnings
}

type compiler struct {
	roles    []string
	written  func(path string) bool
	set      *Set
	faults   []strictjson.Fault
	warnings []strictjson.Fault
}

func (c *compiler) fault(path, format string, args ...any) {
	c.faults = append(c.faults, strictjson.Fault{Path: path, Message: fmt.Sprintf(format, args...)})
}

func (c *compiler) warn(path, format string, args ...any) {
	c.warnings = append(c.warnings, strictjson.Fault{Path: path, Message: fmt.Sprintf(format, args...)})
}

func (c *compiler) pipe(path string, d Definition) {
	p := &Pipe{definition: d, writes: !Reads(d.SQL), changes: Changes(d.SQL)}
	c.name(path, d.Name)
	c.allowedRoles(strictjson.Join(path, "allowed_roles"), d.AllowedRoles)
	c.parameters(strictjson.Join(path, "parameters"), p)
	c.statement(strictjson.Join(path, "sql"), p)
	c.unused(strictjson.Join(path, "parameters"), p)
	c.reads(strictjson.Join(path, "reads"), d.Reads)
	if p.writes && d.Cache.TTL != nil && *d.Cache.TTL > 0 {
		c.warn(strictjson.Join(path, "cache")+".ttl", "the statement writes, so its answers are never kept")
	}
	if p.SeesAsCaller() {
		c.asCaller(path, p)
	}
	c.set.byName[d.Name] = p
}

// asCaller refuses what cannot be seen through grants.
func (c *compiler) asCaller(path string, p *Pipe) {
	verb := Verb(p.definition.SQL)
	if verb != "" && verb != "SELECT" && verb != "FROM" {
		c.fault(strictjson.Join(path, "policies"), "want a SELECT, not %s: only what is selected can be seen through a caller's grants", verb)
	}
	for _, t := range scan(p.definition.SQL) {
		if t.kind != word {
			continue
		}
		if said := strings.ToUpper(p.definition.SQL[t.start:t.end]); partial(said) {
			c.warn(strictjson.Join(path, "sql"), "%s is refused to callers where it is said of a table: each is seen through a grant, as a subquery", said)
		}
	}
}

// partial reports whether a word says how a table is read, and so cannot be said
// of a part of one.
func partial(word string) bool {
	return word == "FINAL" || word == "PREWHERE" || word == "SAMPLE" || word == "SETTINGS"
}

func (c *compiler) name(path, name string) {
	at := strictjson.Join(path, "name")
	switch {
	case name == "":
		c.fault(path, "a pipe must have a name")
	case !pipeName(name):
		c.fault(at, "the name %q cannot be in a URL as it is: want letters, digits, _, - and dots, and a letter, a digit or _ first", name)
	case c.set.byName[name] != nil:
		c.fault(at, "the pipe %q is there twice", name)
	}
}

func pipeName(name string) bool {
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == "" &&
		name[0] != '.' && name[0] != '-'
}

func (c *compiler) allowedRoles(path string, roles []string) {
	if len(roles) == 0 {
		c.warn(path, "no role may run this pipe but the admin role")
	}
	for i, role := range roles {
		if c.roles != nil && role != policy.DefaultAdminRole && !slices.Contains(c.roles, role) {
			c.fault(strictjson.Index(path, i), "role %q is not in roles.json", role)
		}
	}
}

func (c *compiler) reads(path string, tables []string) {
	for i, table := range tables {
		if table == "" {
			c.fault(strictjson.Index(path, i), "a table must have a name")
		}
	}
}

// reservedNames mean something else in a placeholder.
func reservedNames() []string { return []string{"jwt", "tenant"} }

func (c *compiler) parameters(path string, p *Pipe) {
	for i, d := range p.definition.Parameters {
		at := strictjson.Index(path, i)
		switch name := strictjson.Join(at, "name"); {
		case d.Name == "":
			c.fault(at, "a parameter must have a name")
		case !simpleName(d.Name):
			c.fault(name, "the name %q is not letters, digits and _", d.Name)
		case slices.Contains(reservedNames(), d.Name):
			c.fault(name, "the name %q has a meaning of its own in placeholders", d.Name)
		case p.Declares(d.Name):
			c.fault(name, "the parameter %q is there twice", d.Name)
		}
		p.parameters = append(p.parameters, c.parameter(at, d))
	}
}

func (c *compiler) parameter(path string, d Parameter) parameter {
	q := parameter{name: d.Name, required: d.Required}
	typ, err := parseType(d.Type)
	if err != nil {
		c.fault(strictjson.Join(path, "type"), "%v", err)
		return q
	}
	q.typ = typ
	at := strictjson.Join(path, "default")
	if !c.written(at) {
		return q
	}
	if d.Required {
		c.warn(at, "a required parameter's default is never used")
	}
	if d.Default == nil {
		return q
	}
	if _, err := typ.bind(d.Default); err != nil {
		c.fault(at, "the default is not of the type %s: %v", typ, err)
		return q
	}
	q.fallback, q.has = d.Default, true
	return q
}

// unused warns of parameters that do nothing, and refuses names that may stay
// without a value.
func (c *compiler) unused(path string, p *Pipe) {
	for i, q := range p.parameters {
		used, bare := false, false
		for _, stretch := range p.stretches {
			if stretch.ref.kind == refParameter && stretch.ref.parameter == i {
				used = true
				bare = bare || !stretch.ref.has
			}
		}
		at := strictjson.Index(path, i)
		if !used && len(p.stretches) > 0 {
			c.warn(at, "the statement does not use the parameter %q", q.name)
		}
		if bare && q.typ.kind == kindIdentifier && !q.required && !q.has {
			c.fault(at, "an identifier must be required or have a default: there is no statement without it")
		}
	}
}

// statement cuts the SQL at its placeholders.
func (c *compiler) statement(path string, p *Pipe) {
	sql := p.definition.SQL
	tokens := meaningful(sql, scan(sql))
	if len(tokens) == 0 {
		c.fault(path, "a pipe must have a statement")
		return
	}
	if message := misshapen(sql, tokens); message != "" {
		c.fault(path, "%s", message)
		return
	}
	if !c.bare(path, sql) {
		return
	}
	c.cut(path, p, sql[:tokens[len(tokens)-1].end])
}

// bare refuses placeholders where nothing can be bound.
func (c *compiler) bare(path, sql string) bool {
	before := len(c.faults)
	for _, t := range scan(sql) {
		if t.kind != text && t.kind != quotedName && t.kind != comment {
			continue
		}
		if at := strings.Index(sql[t.start:t.end], "{{"); at >= 0 {
			name, _, closed := strings.Cut(sql[t.start+at:t.end], "}}")
			if closed {
				name += "}}"
			}
			c.fault(path, "the placeholder %s is inside %s: values are bound, not spliced; write it bare", excerpt.Of(name), within(t.kind))
		}
	}
	return len(c.faults) == before
}

func (c *compiler) cut(path string, p *Pipe, sql string) {
	start, before := 0, len(c.faults)
	for _, t := range scan(sql) {
		if t.kind != placeholder {
			continue
		}
		ref, err := c.reference(p, sql, t)
		if err != nil {
			c.fault(path, "%v", err)
		}
		p.stretches = append(p.stretches, stretch{sql: sql[start:t.start], ref: ref})
		start = t.end
	}
	p.stretches = append(p.stretches, stretch{sql: sql[start:]})
	if len(c.faults) > before {
		p.stretches = nil
	}
}

func within(k tokenKind) string {
	switch k {
	case text:
		return "quotes"
	case comment:
		return "a comment"
	}
	return "a quoted name"
}

// meaningful leaves out what ClickHouse skips, and the semicolon at the end.
func meaningful(sql string, all []token) []token {
	var tokens []token
	for _, t := range all {
		if t.kind != space && t.kind != comment {
			tokens = append(tokens, t)
		}
	}
	for len(tokens) > 0 && sql[tokens[len(tokens)-1].start] == ';' {
		tokens = tokens[:len(tokens)-1]
	}
	return tokens
}

// misshapen says what keeps the text from being one statement whose answer is
// rendered by the server; "" when nothing does.
func misshapen(sql string, tokens []token) string {
	for i, t := range tokens {
		text := sql[t.start:t.end]
		switch {
		case t.open && t.kind == placeholder:
			return "a placeholder is not closed: want }}"
		case t.open:
			return "the statement ends inside " + within(t.kind)
		case text == "{" && typed(sql, tokens[i+1:]):
			return "a value is written {{name}}, and its type in parameters: ClickHouse's {name:Type} has no value here"
		case t.kind == symbol && text == ";":
			return "want one statement, not several"
		case t.kind == word && strings.EqualFold(text, "FORMAT") && formatClause(sql, tokens[i+1:]):
			return "leave FORMAT out: the answer is rendered as the caller accepts it"
		case t.kind == word && strings.EqualFold(text, "OUTFILE"):
			return "INTO OUTFILE is not for a server"
		}
	}
	return ""
}

// typed reports whether what follows a brace makes it a parameter of ClickHouse.
func typed(sql string, after []token) bool {
	return len(after) > 2 && after[0].kind == word && sql[after[1].start] == ':' && after[2].kind == word
}

// formatClause reports whether what follows the word FORMAT makes it a clause:
// a name, and then nothing, data, or SETTINGS.
func formatClause(sql string, after []token) bool {
	if len(after) == 0 || after[0].kind != word {
		return false
	}
	return len(after) == 1 || strings.EqualFold(sql[after[1].start:after[1].end], "SETTINGS") ||
		sql[after[1].start] == '{' || sql[after[1].start] == '['
}

// reference reads one placeholder.
func (c *compiler) reference(p *Pipe, sql string, t token) (reference, error) {
	inner := strings.TrimSpace(sql[t.start+2 : t.end-2])
	shown := sql[t.start:t.end]
	if path, ok := strings.CutPrefix(inner, "jwt."); ok {
		parsed, err := claim.Parse(path)
		if err == nil && strings.Contains(path, ":") && !strings.Contains(path, `"`) {
			err = errors.New("a claim has no default, and a name that holds a colon must be quoted")
		}
		if err != nil {
			return reference{}, fmt.Errorf("%s names no claim: %w", excerpt.Of(shown), err)
		}
		return c.placed(reference{kind: refClaim, claim: parsed}, false, sql, t)
	}
	if inner == "tenant" {
		return c.placed(reference{kind: refTenant}, false, sql, t)
	}
	name, fallback, has := strings.Cut(inner, ":")
	name = strings.TrimSpace(name)
	at := slices.IndexFunc(p.parameters, func(q parameter) bool { return q.name == name })
	if at < 0 {
		return reference{}, c.unknown(p, name, shown)
	}
	q := p.parameters[at]
	ref := reference{kind: refParameter, parameter: at}
	if has {
		value, err := inlineDefault(q.typ, unquote(strings.TrimSpace(fallback)))
		if err != nil {
			return reference{}, fmt.Errorf("%s: the default is not of the type %s: %w", excerpt.Of(shown), q.typ, err)
		}
		ref.fallback, ref.has = value, true
	}
	return c.placed(ref, q.typ.kind == kindIdentifier, sql, t)
}

func (c *compiler) unknown(p *Pipe, name, shown string) error {
	names := reservedNames()
	for _, q := range p.parameters {
		names = append(names, q.name)
	}
	hint := cmp.Or(nearest.Hint(name, names), ": declare it in parameters")
	return fmt.Errorf("%s names no parameter%s", excerpt.Of(shown), hint)
}

// placed refuses a placeholder that is glued to a name: it would be a part of
// an identifier.
func (c *compiler) placed(ref reference, identifier bool, sql string, t token) (reference, error) {
	before, after := t.start > 0 && glued(sql[t.start-1], identifier), t.end < len(sql) && glued(sql[t.end], identifier)
	if before || after {
		return reference{}, fmt.Errorf("the placeholder %s is inside an identifier: it stands for a whole value", excerpt.Of(sql[t.start:t.end]))
	}
	return ref, nil
}

func glued(b byte, identifier bool) bool {
	if b == '.' {
		return !identifier
	}
	return nameByte(b) || strings.IndexByte("'\"`@", b) >= 0
}

// inlineDefault reads the default written in a placeholder as the query string
// would give it; an array is JSON.
func inlineDefault(t valueType, written string) (any, error) {
	value, err := fromText(t, []string{written})
	if err != nil {
		return nil, err
	}
	if _, err := t.bind(value); err != nil {
		return nil, err
	}
	return value, nil
}

// unquote takes off quotes around the whole.
func unquote(s string) string {
	if n := len(s); n >= 2 && (s[0] == '\'' || s[0] == '"') && s[n-1] == s[0] {
		return s[1 : n-1]
	}
	return s
}

// fromText reads the values that a query string gives to one parameter. An
// array is repeated, or one value that is a JSON array.
func fromText(t valueType, values []string) (any, error) {
	if !t.array {
		if len(values) > 1 {
			return nil, fmt.Errorf("it is given %d times", len(values))
		}
		return values[0], nil
	}
	if len(values) == 1 && strings.HasPrefix(values[0], "[") && json.Valid([]byte(values[0])) {
		var list []any
		if faults := strictjson.Decode([]byte(values[0]), &list); len(faults) > 0 {
			return nil, errors.New(faults[0].Message)
		}
		return list, nil
	}
	list := make([]any, len(values))
	for i, v := range values {
		list[i] = v
	}
	return list, nil
}
