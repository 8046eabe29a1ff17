package query

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// Bounds of a reference to a part of a column.
const (
	maxReference = 1 << 10 // bytes
	maxSteps     = 16
)

// step is one step from a value into it: by name, or by an index from 1 or, from
// the end, from -1.
type step struct {
	name    string
	index   int
	indexed bool
}

// parseSteps reads the part of a reference behind its column: .name, ["name"]
// with the escapes of JSON, and [index].
func parseSteps(text string) ([]step, error) {
	if len(text) > maxReference {
		return nil, fmt.Errorf("the reference is longer than %d bytes", maxReference)
	}
	var steps []step
	for rest := text; rest != ""; {
		var s step
		var err error
		if s, rest, err = parseStep(rest); err != nil {
			return nil, err
		}
		if steps = append(steps, s); len(steps) > maxSteps {
			return nil, fmt.Errorf("the reference has more than %d steps", maxSteps)
		}
	}
	return steps, nil
}

func parseStep(text string) (s step, rest string, err error) {
	switch {
	case text[0] == '.':
		end := 1
		for end < len(text) && !strings.ContainsRune(".[", rune(text[end])) {
			end++
		}
		s.name, rest = text[1:end], text[end:]
		return s, rest, bareName(s.name)
	case strings.HasPrefix(text, `["`):
		return quotedStep(text)
	case text[0] == '[':
		return indexStep(text)
	}
	return s, "", fmt.Errorf(`want .name, ["name"] or [index] at %q`, excerpt.Of(text))
}

// bareName refuses names that must be quoted.
func bareName(name string) error {
	if name == "" {
		return fmt.Errorf("there is a dot without a name behind it")
	}
	odd := func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune("]\"`'", r)
	}
	if strings.IndexFunc(name, odd) >= 0 || !utf8.ValidString(name) {
		return fmt.Errorf(`a name like %q is written ["name"]`, excerpt.Of(name))
	}
	return nil
}

func quotedStep(text string) (s step, rest string, err error) {
	end := 2
	for end < len(text) && text[end] != '"' {
		if text[end] == '\\' {
			end++
		}
		end++
	}
	if end+1 >= len(text) || text[end+1] != ']' {
		return s, "", fmt.Errorf(`want ["name"] at %q`, excerpt.Of(text))
	}
	if err := json.Unmarshal([]byte(text[1:end+1]), &s.name); err != nil || !utf8.ValidString(text) {
		return s, "", fmt.Errorf("%s is not a name in quotes as JSON has them", excerpt.Of(text[1:end+1]))
	}
	return s, text[end+2:], nil
}

func indexStep(text string) (s step, rest string, err error) {
	end := strings.IndexByte(text, ']')
	if end < 0 {
		return s, "", fmt.Errorf("want [index] at %q", excerpt.Of(text))
	}
	digits := text[1:end]
	s.indexed = true
	s.index, err = strconv.Atoi(digits)
	if err != nil || s.index == 0 || strconv.Itoa(s.index) != digits || s.index > 1<<31-1 || s.index < -1<<31 {
		return s, "", fmt.Errorf(`the index [%s] is not a whole number from 1, or from -1 for the end; a key is written ["name"]`, excerpt.Of(digits))
	}
	return s, text[end+1:], nil
}
