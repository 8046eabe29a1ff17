package coltype

import "math"

// decimal takes "(P, S)", "(P)" or nothing, which means (10, 0).
func (p *parser) decimal() (Type, error) {
	precision, scale := 10, 0
	after := p.at
	if !p.accept('(') {
		p.at = after
		return decimalOf(precision, scale), nil
	}
	precision, err := p.integer(1, 76)
	if err != nil {
		return Type{}, err
	}
	if p.accept(',') {
		if scale, err = p.integer(0, precision); err != nil {
			return Type{}, err
		}
	}
	return decimalOf(precision, scale), p.expect(')')
}

// sizedDecimal takes "(S)" of Decimal32 and its siblings.
func sizedDecimal(precision int) family {
	return func(p *parser) (Type, error) {
		if err := p.expect('('); err != nil {
			return Type{}, err
		}
		scale, err := p.integer(0, precision)
		if err != nil {
			return Type{}, err
		}
		return decimalOf(precision, scale), p.expect(')')
	}
}

func decimalOf(precision, scale int) Type {
	bits := 256
	switch {
	case precision <= 9:
		bits = 32
	case precision <= 18:
		bits = 64
	case precision <= 38:
		bits = 128
	}
	return Type{Kind: Decimal, Bits: bits, Precision: precision, Scale: scale}
}

func (p *parser) fixedString() (Type, error) {
	if err := p.expect('('); err != nil {
		return Type{}, err
	}
	length, err := p.integer(1, maxFixedString)
	if err != nil {
		return Type{}, err
	}
	return Type{Kind: FixedString, Length: length}, p.expect(')')
}

// dateTime takes an optional "('zone')".
func (p *parser) dateTime() (Type, error) {
	after := p.at
	if !p.accept('(') {
		p.at = after
		return Type{Kind: DateTime}, nil
	}
	zone, err := p.quoted('\'')
	if err != nil {
		return Type{}, err
	}
	return Type{Kind: DateTime, Zone: zone}, p.expect(')')
}

// dateTime64 takes "(P)" or "(P, 'zone')"; without parentheses P is 3.
func (p *parser) dateTime64() (Type, error) {
	t, err := p.fraction(DateTime64)
	if err != nil || p.text[p.at-1] != ',' {
		return t, err
	}
	if t.Zone, err = p.quoted('\''); err != nil {
		return Type{}, err
	}
	return t, p.expect(')')
}

func (p *parser) time64() (Type, error) {
	t, err := p.fraction(Time64)
	if err == nil && p.text[p.at-1] == ',' {
		err = p.fail("unexpected argument")
	}
	return t, err
}

// fraction takes "(P" and the comma or parenthesis after it.
func (p *parser) fraction(kind Kind) (Type, error) {
	after := p.at
	if !p.accept('(') {
		p.at = after
		return Type{Kind: kind, Precision: 3}, nil
	}
	precision, err := p.integer(0, 9)
	if err != nil {
		return Type{}, err
	}
	if p.accept(',') {
		return Type{Kind: kind, Precision: precision}, nil
	}
	return Type{Kind: kind, Precision: precision}, p.expect(')')
}

// enum takes "('name' = number, …)"; a name without a number follows the one
// before it.
func (p *parser) enum(bits int) (Type, error) {
	t := Type{Kind: Enum, Bits: bits}
	if err := p.expect('('); err != nil {
		return t, err
	}
	low, high := -1<<(bits-1), 1<<(bits-1)-1
	for next := 1; ; next++ {
		name, err := p.quoted('\'')
		if err != nil {
			return t, err
		}
		if p.accept('=') {
			if next, err = p.integer(low, high); err != nil {
				return t, err
			}
		}
		if next > high {
			return t, p.fail("number %d is out of range", next)
		}
		t.Values = append(t.Values, EnumValue{Name: name, Value: int16(next)})
		if p.accept(')') {
			return t, nil
		}
		if err := p.expect(','); err != nil {
			return t, err
		}
	}
}

// tuple takes "(T, …)" or "(name T, …)".
func (p *parser) tuple() (Type, error) {
	if err := p.expect('('); err != nil {
		return Type{}, err
	}
	if p.accept(')') {
		return Type{Kind: Tuple}, nil
	}
	if p.namedMember() {
		return p.members(Tuple)
	}
	elems, err := p.typeList(nil)
	return Type{Kind: Tuple, Elems: elems}, err
}

func (p *parser) nested() (Type, error) {
	if err := p.expect('('); err != nil {
		return Type{}, err
	}
	return p.members(Nested)
}

// namedMember reports whether a member's name is next: a quoted one, or a word
// that another word follows.
func (p *parser) namedMember() bool {
	start := p.at
	defer func() { p.at = start }()
	if c := p.peek(); c == '`' || c == '"' {
		return true
	}
	return p.word() != "" && isWord(p.peek())
}

// members takes "name T, …)".
func (p *parser) members(kind Kind) (Type, error) {
	t := Type{Kind: kind}
	for {
		name, err := p.memberName()
		if err != nil {
			return t, err
		}
		elem, err := p.parse()
		if err != nil {
			return t, err
		}
		t.Names, t.Elems = append(t.Names, name), append(t.Elems, elem)
		if p.accept(')') {
			return t, nil
		}
		if err := p.expect(','); err != nil {
			return t, err
		}
	}
}

func (p *parser) memberName() (string, error) {
	if c := p.peek(); c == '`' || c == '"' {
		return p.quoted(c)
	}
	name := p.word()
	if name == "" {
		return "", p.fail("expected a member name")
	}
	return name, nil
}

// aggregate takes "(function(parameters), T, …)", with a version in front when
// the server writes one.
func (p *parser) aggregate(kind Kind) (Type, error) {
	t := Type{Kind: kind}
	if err := p.expect('('); err != nil {
		return t, err
	}
	if c := p.peek(); c >= '0' && c <= '9' {
		if _, err := p.integer(0, math.MaxInt32); err != nil {
			return t, err
		}
		if err := p.expect(','); err != nil {
			return t, err
		}
	}
	if err := p.function(&t); err != nil {
		return t, err
	}
	if p.accept(')') {
		if kind == SimpleAggregateFunction {
			return t, p.fail("expected a type")
		}
		return t, nil
	}
	if err := p.expect(','); err != nil {
		return t, err
	}
	var err error
	t.Elems, err = p.typeList(nil)
	return t, err
}

// function takes an aggregate function's name and parameters.
func (p *parser) function(t *Type) error {
	p.space()
	start := p.at
	if p.word() == "" {
		return p.fail("expected a function name")
	}
	if p.peek() == '(' {
		p.at++
		if _, err := p.balanced(); err != nil {
			return err
		}
		p.at++
	}
	t.Function = p.text[start:p.at]
	return nil
}
