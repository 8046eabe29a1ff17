package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/wavehouse/wavehouse/internal/excerpt"
	"github.com/wavehouse/wavehouse/internal/record"
)

// template is a text with claims in it. One that is a single claim stands for
// the claim itself, with its type.
type template []part

// part is a piece of text, or a claim when claim is not "".
type part struct{ text, claim string }

// whole returns the claim that the template is, "" when it is more than one.
func (t template) whole() string {
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
		claim, err := parseClaim(inside)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", excerpt.Of(text), err)
		}
		t, rest = append(t, part{claim: claim}), next
	}
	for _, p := range t {
		if p.claim != "" {
			return t, nil
		}
	}
	return nil, nil
}

// parseClaim reads what stands between the braces.
func parseClaim(inside string) (string, error) {
	path, ok := strings.CutPrefix(strings.TrimSpace(inside), claimPrefix)
	switch {
	case !ok:
		return "", errors.New("only claims can stand between braces: write {{ jwt.<path> }}")
	case strings.ContainsAny(path, "{} \t\r\n"):
		return "", errors.New("a claim's path holds no braces or spaces")
	}
	for name := range strings.SplitSeq(path, ".") {
		if name == "" {
			return "", errors.New("a claim's path is names joined by dots: {{ jwt.<name>.<name> }}")
		}
	}
	return path, nil
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
		claim, _ := Claim(claims, p.claim)
		value, ok := scalarText(claim)
		if !ok {
			return "", p.claim
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
	claim, _ := Claim(claims, path)
	if lists {
		if values, ok := scalarsJSON(claim); ok {
			return values, ""
		}
	} else if value, ok := scalarJSON(claim); ok {
		return []json.RawMessage{value}, ""
	}
	return nil, path
}
