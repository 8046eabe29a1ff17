package coltype

import "strings"

const (
	// maxDepth bounds how deep types nest.
	maxDepth = 64
	// maxText bounds a type's text: an Enum16 of every number with names of
	// twenty bytes is below it.
	maxText = 4 << 20
	// maxFixedString is ClickHouse's own bound.
	maxFixedString = 0xFFFFFF
)

// Parse reads a whole type. A family it has no name for becomes Other; the
// error, an *Error, is for text that is no type at all.
func Parse(text string) (Type, error) {
	p := &parser{scanner: scanner{text: text}}
	if len(text) > maxText {
		return Type{}, p.fail("text of %d bytes is too long", len(text))
	}
	t, err := p.parse()
	if err != nil {
		return Type{}, err
	}
	if p.peek() != 0 {
		return Type{}, p.fail("unexpected %q after the type", p.peek())
	}
	return t, nil
}

type parser struct {
	scanner
	depth int
}

// parse takes one type with its arguments.
func (p *parser) parse() (Type, error) {
	if p.depth++; p.depth > maxDepth {
		return Type{}, p.fail("types nested deeper than %d", maxDepth)
	}
	defer func() { p.depth-- }()
	p.space()
	start := p.at
	name := p.word()
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		p.at = start
		return Type{}, p.fail("expected a type name")
	}
	t, err := p.arguments(name)
	t.Name, t.Text = name, p.text[start:p.at]
	return t, err
}

// arguments takes the parentheses after a family's name, if it may have them.
func (p *parser) arguments(name string) (Type, error) {
	if t, ok := plain[name]; ok {
		return t, nil
	}
	if parts, ok := geo[name]; ok {
		return Type{Kind: Geo, Elems: []Type{mustParse(parts)}}, nil
	}
	if strings.HasPrefix(name, "Interval") && intervals[name[len("Interval"):]] {
		return Type{Kind: Interval, Bits: 64}, nil
	}
	if take := withArguments(name); take != nil {
		return take(p)
	}
	return p.raw(Other)
}

// mustParse parses one of this package's own texts.
func mustParse(text string) Type {
	t, err := Parse(text)
	if err != nil {
		panic(err)
	}
	return t
}

// raw takes optional arguments as text.
func (p *parser) raw(kind Kind) (Type, error) {
	after := p.at
	if !p.accept('(') {
		p.at = after
		return Type{Kind: kind}, nil
	}
	args, err := p.balanced()
	if err != nil {
		return Type{}, err
	}
	return Type{Kind: kind, Args: args}, p.expect(')')
}

// types takes "(T, T, …)" with at least low and at most high types.
func (p *parser) types(kind Kind, low, high int) (Type, error) {
	if err := p.expect('('); err != nil {
		return Type{}, err
	}
	elems, err := p.typeList(nil)
	if err != nil {
		return Type{}, err
	}
	if len(elems) < low || len(elems) > high {
		return Type{}, p.fail("wrong number of types: %d", len(elems))
	}
	return Type{Kind: kind, Elems: elems}, nil
}

// typeList takes types up to and with the closing parenthesis.
func (p *parser) typeList(elems []Type) ([]Type, error) {
	for {
		t, err := p.parse()
		if err != nil {
			return nil, err
		}
		elems = append(elems, t)
		if p.accept(')') {
			return elems, nil
		}
		if err := p.expect(','); err != nil {
			return nil, err
		}
	}
}
