package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/wavehouse/wavehouse/internal/claim"
	"github.com/wavehouse/wavehouse/internal/excerpt"
	"github.com/wavehouse/wavehouse/internal/record"
)

// template is a text with claims in it. One that is a single claim stands for
// the claim itself, with its type.
type template []part

// part is a piece of text, or a claim when claim is not "".
type part struct {
	text  string
	claim claim.Path
}

// whole returns the claim that the template is, "" when it is more than one.
func (t template) whole() claim.Path {
	if len(t) == 1 {
		return t[0].claim
	}
	return ""
}

const (
	opening     = "{{"
	closing     = "}}"
	claimPrefix = "jwt."
)

// parseTemplate reads a text that may hold claims; nil means that it holds none.
func parseTemplate(text string) (template, error) {
	var t template
	rest := text
	for {
		before, after, found := strings.Cut(rest, opening)
		if strings.Contains(before, closing) {
			return nil, fmt.Errorf("%q closes a claim that it does not open: write {{ jwt.<path> }}", excerpt.Of(text))
		}
		if before != "" {
			t = append(t, part{text: before})
		}
		if !found {
			break
		}
		inside, next, closed := strings.Cut(after, closing)
		if !closed {
			return nil, fmt.Errorf("%q opens a claim that it does not close: write {{ jwt.<path> }}", excerpt.Of(text))
		}
		path, err := parseClaim(inside)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", excerpt.Of(text), err)
		}
		t, rest = append(t, part{claim: path}), next
	}
	for _, p := range t {
		if p.claim != "" {
			return t, nil
		}
	}
	return nil, nil
}

// parseClaim reads what stands between the braces.
func parseClaim(inside string) (claim.Path, error) {
	path, ok := strings.CutPrefix(strings.TrimSpace(inside), claimPrefix)
	if !ok {
		return "", errors.New("only claims can stand between braces: write {{ jwt.<path> }}")
	}
	return claim.Parse(path)
}

// text joins the parts, each claim escaped. It returns the claim that has no
// value, if there is one.
func (t template) text(claims map[string]any, escape func(string) string) (text, missing string) {
	var s strings.Builder
	for _, p := range t {
		if p.claim == "" {
			s.WriteString(p.text)
			continue
		}
		found, _ := p.claim.Lookup(claims)
		value, ok := scalarText(found)
		if !ok {
			return "", string(p.claim)
		}
		s.WriteString(escape(value))
	}
	return s.String(), ""
}

// operand is what a column is compared with: one value, or several of a list.
type operand []source

// source is a literal, or a template when that is not nil.
type source struct {
	literal  json.RawMessage
	template template
}

// resolution is an operand for one caller.
type resolution struct {
	values []json.RawMessage
	// missing is the claim that has no value, "" when all have.
	missing string
}

// resolve returns the operand's values; lists allows a claim to be several.
func (o operand) resolve(claims map[string]any, lists bool, escape func(string) string) resolution {
	var r resolution
	for _, s := range o {
		values, missing := s.resolve(claims, lists, escape)
		if missing != "" {
			return resolution{missing: missing}
		}
		r.values = append(r.values, values...)
	}
	return r
}

func (s source) resolve(claims map[string]any, lists bool, escape func(string) string) (values []json.RawMessage, missing string) {
	if s.template == nil {
		return []json.RawMessage{s.literal}, ""
	}
	path := s.template.whole()
	if path == "" {
		text, missing := s.template.text(claims, escape)
		return []json.RawMessage{record.AppendJSONString(nil, text)}, missing
	}
	found, _ := path.Lookup(claims)
	if lists {
		if values, ok := scalarsJSON(found); ok {
			return values, ""
		}
	} else if value, ok := scalarJSON(found); ok {
		return []json.RawMessage{value}, ""
	}
	return nil, string(path)
}
