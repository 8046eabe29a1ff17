package pipes

import (
	"fmt"
	"slices"
	"strings"
)

// kind is the type of one value.
type kind uint8

const (
	kindString kind = iota
	kindNumber
	kindBoolean
	kindDate
	kindDatetime
	kindUUID
	kindIdentifier
)

var kindNames = [...]string{"string", "number", "boolean", "date", "datetime", "uuid", "identifier"}

// valueType is the type of a parameter.
type valueType struct {
	kind  kind
	array bool
	// choices are those of an identifier.
	choices []string
}

const typesWanted = "string, number, boolean, date, datetime, uuid, array(<type>) or identifier(<choice>|<choice>)"

// parseType reads a declared type.
func parseType(declared string) (valueType, error) {
	name := strings.TrimSpace(declared)
	if inner, ok := inside(name, "identifier"); ok {
		return identifierType(inner)
	}
	if inner, ok := inside(name, "array"); ok {
		t, err := parseType(inner)
		if err != nil || t.array || t.kind == kindIdentifier {
			return valueType{}, fmt.Errorf("the type %q is not known: an array is of string, number, boolean, date, datetime or uuid", declared)
		}
		t.array = true
		return t, nil
	}
	if at := slices.Index(kindNames[:kindIdentifier], name); at >= 0 {
		return valueType{kind: kind(at)}, nil
	}
	return valueType{}, fmt.Errorf("the type %q is not known: want %s", declared, typesWanted)
}

func inside(name, outer string) (string, bool) {
	rest, ok := strings.CutPrefix(name, outer)
	rest = strings.TrimSpace(rest)
	if !ok || !strings.HasPrefix(rest, "(") || !strings.HasSuffix(rest, ")") {
		return "", false
	}
	return strings.TrimSpace(rest[1 : len(rest)-1]), true
}

func identifierType(inner string) (valueType, error) {
	t := valueType{kind: kindIdentifier}
	for choice := range strings.SplitSeq(inner, "|") {
		choice = strings.TrimSpace(choice)
		if !identifierPath(choice) {
			return valueType{}, fmt.Errorf("the choice %q is no identifier: want letters, digits and _, with dots between parts", choice)
		}
		if slices.Contains(t.choices, choice) {
			return valueType{}, fmt.Errorf("the choice %q is there twice", choice)
		}
		t.choices = append(t.choices, choice)
	}
	return t, nil
}

func identifierPath(s string) bool {
	for part := range strings.SplitSeq(s, ".") {
		if !simpleName(part) {
			return false
		}
	}
	return true
}

// simpleName reports whether s is a letter or _ and then letters, digits and _.
func simpleName(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

func (t valueType) String() string {
	name := kindNames[t.kind]
	if t.kind == kindIdentifier {
		name += "(" + strings.Join(t.choices, "|") + ")"
	}
	if t.array {
		return "array(" + name + ")"
	}
	return name
}
