package pipes

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/excerpt"
	"github.com/wavehouse/wavehouse/internal/strictjson"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// Bounds of the values that travel as parameters. ClickHouse takes a parameter
// of up to 128 KiB and an address line of up to 1 MiB.
const (
	maxValueBytes  = 64 << 10
	maxValuesBytes = 256 << 10
)

// Codes of an Error.
const (
	CodeMissing = "pipe.parameter_missing"
	CodeInvalid = "pipe.parameter_invalid"
	CodeClaim   = "pipe.claim_missing"
)

// Error is the refusal of arguments.
type Error struct {
	Code string
	// Parameter is the one at fault; "" when it is none's.
	Parameter string
	Message   string
}

func (e *Error) Error() string { return e.Message }

func invalid(parameter, format string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Parameter: parameter, Message: fmt.Sprintf(format, args...)}
}

// Arguments are what a caller gives to a pipe.
type Arguments struct {
	Tenant tenant.ID
	// Claims are those of the caller's token, numbers as json.Number.
	Claims map[string]any
	// Query holds the parameters of the query string.
	Query url.Values
	// Body is a JSON object of parameters, which win; blank for none.
	Body []byte
}

// Statement is a pipe with its arguments, ready to be sent.
type Statement struct {
	SQL string
	// Params are the typed parameters by name, escaped for the HTTP interface.
	Params map[string]string
	// Shape is the statement with a literal in each parameter's place, to be
	// parsed and never run.
	Shape string
}

// Bind reads the arguments and binds them. The error is an *Error.
func (p *Pipe) Bind(args Arguments) (*Statement, error) {
	given, err := p.given(args)
	if err != nil {
		return nil, err
	}
	b := &binder{pipe: p, args: args, given: given, params: map[string]string{}}
	var sql, shape strings.Builder
	for _, stretch := range p.stretches {
		sql.WriteString(stretch.sql)
		shape.WriteString(stretch.sql)
		if stretch.ref.kind == refNone {
			continue
		}
		text, literal, err := b.place(stretch.ref)
		if err != nil {
			return nil, err
		}
		sql.WriteString(text)
		shape.WriteString(literal)
	}
	if b.bytes > maxValuesBytes {
		return nil, invalid("", "the values are longer than %d bytes together", maxValuesBytes)
	}
	return &Statement{SQL: sql.String(), Params: b.params, Shape: shape.String()}, nil
}

// given collects the values by parameter, checked to be of its type.
func (p *Pipe) given(args Arguments) ([]any, error) {
	body, err := p.bodyValues(args.Body)
	if err != nil {
		return nil, err
	}
	for name := range args.Query {
		if !p.Declares(name) {
			return nil, p.undeclared(name)
		}
	}
	given := make([]any, len(p.parameters))
	for i, q := range p.parameters {
		value, ok := body[q.name]
		if texts := args.Query[q.name]; (!ok || value == nil) && len(texts) > 0 {
			if value, err = fromText(q.typ, texts); err != nil {
				return nil, invalid(q.name, "parameter %s: %v", q.name, err)
			}
		}
		if value == nil && q.required {
			return nil, &Error{Code: CodeMissing, Parameter: q.name, Message: "the parameter " + q.name + " is missing"}
		}
		if value != nil {
			if _, err := q.typ.bind(value); err != nil {
				return nil, invalid(q.name, "parameter %s: %v", q.name, err)
			}
		}
		given[i] = value
	}
	return given, nil
}

func (p *Pipe) bodyValues(body []byte) (map[string]any, error) {
	if strings.TrimSpace(string(body)) == "" {
		return nil, nil
	}
	raw := map[string]any{}
	if faults := strictjson.Decode(body, &raw); len(faults) > 0 {
		return nil, invalid("", "the body is not a JSON object of parameters: %s", faults[0].String())
	}
	for name := range raw {
		if !p.Declares(name) {
			return nil, p.undeclared(name)
		}
	}
	return raw, nil
}

func (p *Pipe) undeclared(name string) *Error {
	names := make([]string, len(p.parameters))
	for i, q := range p.parameters {
		names[i] = q.name
	}
	if len(names) == 0 {
		return invalid(excerpt.Of(name), "unknown parameter %q: this pipe has none", excerpt.Of(name))
	}
	return invalid(excerpt.Of(name), "unknown parameter %q: this pipe has %s", excerpt.Of(name), strings.Join(names, ", "))
}

// binder turns placeholders to query parameters, each value once.
type binder struct {
	pipe   *Pipe
	args   Arguments
	given  []any
	params map[string]string
	bytes  int
}

// place returns the SQL of a placeholder, and a literal in its place.
func (b *binder) place(ref reference) (sql, literal string, err error) {
	switch ref.kind {
	case refTenant:
		sql, err = b.bind("wh_tenant", "tenant", bound{typ: "String", text: b.args.Tenant.String()})
		return sql, "''", err
	case refClaim:
		value, _ := ref.claim.Lookup(b.args.Claims)
		name := string(ref.claim)
		typed, ok := claimValue(value)
		if !ok {
			return "", "", &Error{Code: CodeClaim, Message: "the token does not have the claim " + name + " that this pipe needs"}
		}
		sql, err = b.bind("wh_claim_"+strconv.Itoa(len(b.params)), name, typed)
		return sql, literalOf(typed), err
	}
	return b.parameter(ref)
}

func (b *binder) parameter(ref reference) (sql, literal string, err error) {
	q, value := b.pipe.parameters[ref.parameter], b.given[ref.parameter]
	name := "p_" + q.name
	if value == nil && ref.has {
		// Its own default, whatever it is elsewhere in the statement.
		value, name = ref.fallback, "d"+strconv.Itoa(len(b.params))+"_"+q.name
	} else if value == nil && q.has {
		value = q.fallback
	}
	if q.typ.kind == kindIdentifier {
		choice := identifierOf(q.typ, value)
		return choice, choice, nil
	}
	typed := q.typ.null()
	if value != nil {
		if typed, err = q.typ.bind(value); err != nil {
			return "", "", invalid(q.name, "parameter %s: %v", q.name, err)
		}
	}
	sql, err = b.bind(name, q.name, typed)
	return sql, literalOf(typed), err
}

// identifierOf quotes the definition's own spelling of a choice: what the
// caller sent only picks one.
func identifierOf(t valueType, value any) string {
	at := slices.Index(t.choices, fmt.Sprint(value))
	if at < 0 {
		panic("pipes: an identifier that was not checked")
	}
	parts := strings.Split(t.choices[at], ".")
	for i, part := range parts {
		parts[i] = clickhouse.QuoteIdent(part)
	}
	return strings.Join(parts, ".")
}

func (b *binder) bind(name, shown string, value bound) (string, error) {
	if len(value.text) > maxValueBytes {
		return "", invalid(shown, "parameter %s: the value is longer than %d bytes", shown, maxValueBytes)
	}
	if _, again := b.params[name]; !again {
		b.bytes += len(value.text)
	}
	b.params[name] = value.text
	return "{" + name + ":" + value.typ + "}", nil
}

// Example returns the statement with a value of the right type in each
// placeholder, to be described and never run.
func (p *Pipe) Example() string {
	var b strings.Builder
	for _, stretch := range p.stretches {
		b.WriteString(stretch.sql)
		switch stretch.ref.kind {
		case refParameter:
			b.WriteString(exampleOf(p.parameters[stretch.ref.parameter].typ))
		case refClaim, refTenant:
			b.WriteString("''")
		}
	}
	return b.String()
}

func exampleOf(t valueType) string {
	if t.array {
		return "[" + exampleOf(valueType{kind: t.kind}) + "]"
	}
	switch t.kind {
	case kindNumber:
		return "1"
	case kindBoolean:
		return "true"
	case kindDate:
		return "toDate('2000-01-01')"
	case kindDatetime:
		return "toDateTime64('2000-01-01 00:00:00', 6, 'UTC')"
	case kindUUID:
		return "toUUID('00000000-0000-0000-0000-000000000000')"
	case kindIdentifier:
		return identifierOf(t, t.choices[0])
	}
	return "''"
}

// literalOf stands for a value where only the shape matters.
func literalOf(value bound) string {
	switch {
	case strings.HasPrefix(value.typ, "Array("):
		return "[]"
	case value.typ == "Int64", value.typ == "UInt64", value.typ == "Int256", value.typ == "Float64", value.typ == "Bool":
		return "1"
	}
	return "''"
}
