package coltype

// JSONPath is a path of a JSON type whose values are of one type.
type JSONPath struct {
	// Path are the keys that lead to it, joined by dots.
	Path string
	Type Type
}

// JSONPaths returns the typed paths of a JSON type, in the order written. What
// the type says besides, its limits and the paths that it skips, is left out.
func (t Type) JSONPaths() ([]JSONPath, error) {
	p := &parser{scanner: scanner{text: t.Args}}
	var paths []JSONPath
	for p.peek() != 0 {
		path, err := p.jsonArgument()
		if err != nil {
			return nil, err
		}
		if path.Path != "" {
			paths = append(paths, path)
		}
		if p.peek() != 0 {
			if err := p.expect(','); err != nil {
				return nil, err
			}
		}
	}
	return paths, nil
}

// jsonArgument takes "limit=number", "SKIP path", "SKIP REGEXP 'text'" or
// "path T". Its path is "" for all but the last.
func (p *parser) jsonArgument() (JSONPath, error) {
	name, quoted, err := p.jsonPath()
	switch {
	case err != nil:
		return JSONPath{}, err
	case quoted:
	case p.accept('='):
		_, err := p.integer(0, 1<<30)
		return JSONPath{}, err
	case (name == "SKIP" || name == "skip") && p.peek() != '(':
		return JSONPath{}, p.skipped()
	}
	t, err := p.parse()
	return JSONPath{Path: name, Type: t}, err
}

// skipped takes what follows SKIP.
func (p *parser) skipped() error {
	name, quoted, err := p.jsonPath()
	if err == nil && !quoted && (name == "REGEXP" || name == "regexp") && p.peek() == '\'' {
		_, err = p.quoted('\'')
	}
	return err
}

// jsonPath takes keys with dots between them, in quotes together or each.
func (p *parser) jsonPath() (path string, quoted bool, err error) {
	for {
		var name string
		if c := p.peek(); c == '`' || c == '"' {
			quoted = true
			if name, err = p.quoted(c); err != nil {
				return "", false, err
			}
		} else if name = p.word(); name == "" {
			return "", false, p.fail("expected a path")
		}
		path += name
		if !p.accept('.') {
			return path, quoted, nil
		}
		path += "."
	}
}
