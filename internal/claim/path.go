// Package claim is the one reader of paths into a token's claims, as settings
// write them for roles, policies and pipes.
package claim

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Path names a claim: names joined by dots, a step into a nested object each. A
// name with anything but letters, digits and the like in it is quoted, as in
// "https://id.example.com/roles".admin; inside quotes a backslash stands before
// a quote or a backslash.
type Path string

// Reasons for which a text is no path.
var (
	errEmpty = errors.New(`a claim's path is names joined by dots: app_metadata.role`)
	errQuote = errors.New(`a quoted name in a claim's path ends with its quote, before a dot or the end`)
	errPlain = errors.New(`a name in a claim's path that holds a space, a brace, a quote, a backslash or a control character must be quoted`)
	errURL   = errors.New(`a dot is a step in a claim's path, so a claim that is named by a URL must be quoted: "https://id.example.com/role"`)
)

// Parse checks a path as it is written.
func Parse(text string) (Path, error) {
	for rest, more := text, true; more; {
		var name string
		var err error
		quoted := strings.HasPrefix(rest, `"`)
		if name, rest, more, err = step(rest); err != nil {
			return "", err
		}
		switch {
		case name == "":
			return "", errEmpty
		case quoted:
		case strings.Contains(name, "://"):
			return "", errURL
		case strings.ContainsFunc(name, unplain):
			return "", errPlain
		}
	}
	return Path(text), nil
}

// Of returns the path of the given steps.
func Of(steps ...string) Path {
	written := make([]string, len(steps))
	for i, name := range steps {
		if name == "" || strings.Contains(name, ".") || strings.Contains(name, "://") || strings.ContainsFunc(name, unplain) {
			name = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
		}
		written[i] = name
	}
	return Path(strings.Join(written, "."))
}

// UnmarshalStrict reads a path of a settings file: its text, or the list of its
// steps. An empty text is left for its reader to refuse.
func (p *Path) UnmarshalStrict(raw json.RawMessage) error {
	var steps []string
	if raw[0] == '[' && json.Unmarshal(raw, &steps) == nil {
		if len(steps) == 0 || slices.Contains(steps, "") {
			return errEmpty
		}
		*p = Of(steps...)
		return nil
	}
	var text string
	if raw[0] != '"' || json.Unmarshal(raw, &text) != nil {
		return errors.New("want a path as a string, or as a list of strings")
	}
	if text == "" {
		*p = ""
		return nil
	}
	parsed, err := Parse(text)
	*p = parsed
	return err
}

// JSONSchema describes what UnmarshalStrict reads.
func (Path) JSONSchema() map[string]any {
	text := map[string]any{"type": "string", "minLength": 1}
	return map[string]any{"anyOf": []any{text, map[string]any{"type": "array", "items": text, "minItems": 1}}}
}

// Lookup follows the path. It is not ok when a step is not there.
func (p Path) Lookup(claims map[string]any) (value any, ok bool) {
	value = claims
	for rest, more := string(p), true; more; {
		var name string
		var err error
		if name, rest, more, err = step(rest); err != nil {
			return nil, false
		}
		object, nested := value.(map[string]any)
		if !nested {
			return nil, false
		}
		if value, ok = object[name]; !ok {
			return nil, false
		}
	}
	return value, true
}

// Put sets the value at the path, making the objects on the way.
func (p Path) Put(claims map[string]any, value any) error {
	for rest := string(p); ; {
		name, next, more, err := step(rest)
		switch {
		case err != nil:
			return err
		case !more:
			claims[name] = value
			return nil
		}
		inner, ok := claims[name].(map[string]any)
		if _, taken := claims[name]; taken && !ok {
			return fmt.Errorf("the claim %q is no object, so nothing is put into it", name)
		}
		if !ok {
			inner = map[string]any{}
			claims[name] = inner
		}
		claims, rest = inner, next
	}
}

// unplain reports whether a name with the character must be quoted.
func unplain(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune(`{}"\`, r) }

// step takes the first name off a path.
func step(path string) (name, rest string, more bool, err error) {
	if !strings.HasPrefix(path, `"`) {
		name, rest, more = strings.Cut(path, ".")
		return name, rest, more, nil
	}
	var b strings.Builder
	for i := 1; i < len(path); i++ {
		switch c := path[i]; {
		case c == '\\' && i+1 < len(path) && (path[i+1] == '"' || path[i+1] == '\\'):
			i++
			b.WriteByte(path[i])
		case c == '"':
			rest = path[i+1:]
			if rest == "" {
				return b.String(), "", false, nil
			}
			rest, more = strings.CutPrefix(rest, ".")
			if !more {
				err = errQuote
			}
			return b.String(), rest, more, err
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false, errQuote
}
