package query

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
	"github.com/wavehouse/wavehouse/internal/excerpt"
	"github.com/wavehouse/wavehouse/internal/record"
)

// accessKind is how a value is reached in another.
type accessKind uint8

const (
	accessKey     accessKind = iota // of a map
	accessMember                    // of a tuple, or of all tuples of an array
	accessElement                   // of an array
	accessPath                      // of JSON
)

// access is one or some steps as the type of a value takes them.
type access struct {
	kind accessKind
	// key and keyType are a map's key as a parameter.
	key, keyType string
	index        int      // of a member from 1, of an element also from the end
	path         []string // of JSON
	// canonical spells what is reached in the one way there is for it: elements
	// of an array are not told apart.
	canonical []string
}

// reached is where steps lead.
type reached struct {
	typ      coltype.Type
	accesses []access
	// nullable: a value on the way may be NULL.
	nullable bool
	// untyped: a path of JSON that has no type.
	untyped bool
}

func (r *reached) canonical() []string {
	var path []string
	for _, a := range r.accesses {
		path = append(path, a.canonical...)
	}
	return path
}

// walker follows steps from a type. One that is lenient names what is denied: it
// may leave out which element of an array is meant.
type walker struct {
	zone    *time.Location
	lenient bool
	reached
}

func walk(t coltype.Type, steps []step, zone *time.Location, lenient bool) (reached, error) {
	w := &walker{zone: zone, lenient: lenient, reached: reached{typ: t}}
	for len(steps) > 0 {
		taken, err := w.take(steps)
		if err != nil {
			return w.reached, err
		}
		steps = steps[taken:]
	}
	return w.reached, nil
}

// take follows at least one step and says how many.
func (w *walker) take(steps []step) (taken int, err error) {
	if w.untyped {
		return 0, errors.New("what is in a JSON value without a type cannot be told: declare the path's type in the column")
	}
	w.unwrap()
	switch w.typ.Kind {
	case coltype.Map:
		return 1, w.key(steps[0])
	case coltype.Tuple:
		return 1, w.member(steps[0], w.typ)
	case coltype.Array, coltype.Nested:
		return w.array(steps[0])
	case coltype.JSON:
		return w.path(steps)
	}
	return 0, fmt.Errorf("a value of type %s has no parts", excerpt.Of(w.typ.Text))
}

// unwrap takes off what changes nothing about the parts of a value.
func (w *walker) unwrap() {
	for {
		switch w.typ.Kind {
		case coltype.Nullable:
			w.nullable = true
		case coltype.LowCardinality, coltype.SimpleAggregateFunction, coltype.Geo:
		default:
			return
		}
		w.typ = w.typ.Elem()
	}
}

// key reads a key as the map's keys are read.
func (w *walker) key(s step) error {
	keys := column{name: "key"}
	keys.typ, keys.plain, keys.stored = unwrap(w.typ.Elems[0])
	keys.codec, _ = record.NewCodec(w.typ.Elems[0].Text, w.zone)
	value := json.RawMessage(strconv.Itoa(s.index))
	if !s.indexed {
		value = record.AppendJSONString(nil, s.name)
	}
	typ, text, fault := scalar("the key", keys, value)
	if fault != nil {
		return fault
	}
	if keys.typ.Kind == coltype.Enum {
		typ = keys.plain // an element is not looked up by a text
	}
	w.add(access{kind: accessKey, key: text, keyType: typ, canonical: []string{text}}, w.typ.Elems[1])
	return nil
}

// member finds a member by its name or its place.
func (w *walker) member(s step, tuple coltype.Type) error {
	place := s.index
	if !s.indexed {
		place = slices.Index(tuple.Names, s.name) + 1
		if n, err := strconv.Atoi(s.name); place == 0 && err == nil && strconv.Itoa(n) == s.name {
			place = n
		}
	}
	if place < 1 || place > len(tuple.Elems) {
		return fmt.Errorf("there is no such member in %s", excerpt.Of(tuple.Text))
	}
	w.add(access{kind: accessMember, index: place, canonical: []string{strconv.Itoa(place)}}, tuple.Elems[place-1])
	return nil
}

// array takes an element, or by name that member of all its tuples.
func (w *walker) array(s step) (taken int, err error) {
	elem := w.typ
	if elem.Kind == coltype.Array {
		elem = w.typ.Elem()
	} else {
		elem.Kind = coltype.Tuple // the rows of a Nested
	}
	switch {
	case s.indexed:
		w.add(access{kind: accessElement, index: s.index}, elem)
		return 1, nil
	case w.lenient:
		w.typ = elem
		return 0, nil
	case elem.Kind != coltype.Tuple:
		return 0, fmt.Errorf("an element of %s is reached by its place, as in [1]", excerpt.Of(w.typ.Text))
	}
	if err := w.member(s, elem); err != nil {
		return 0, err
	}
	w.typ, err = coltype.Parse("Array(" + w.typ.Text + ")")
	return 1, err
}

// path takes the names that follow: those of a typed path where they begin with
// one, else all.
func (w *walker) path(steps []step) (taken int, err error) {
	var keys []string
	ends := map[int]int{} // steps taken, by the keys that they make
	for taken < len(steps) && (w.lenient || !steps[taken].indexed) {
		s := steps[taken]
		taken++
		if s.indexed {
			continue
		}
		for _, key := range strings.Split(s.name, ".") {
			if err := plainKey(key); err != nil {
				return 0, err
			}
			keys = append(keys, key)
		}
		ends[len(keys)] = taken
	}
	if len(keys) == 0 {
		return 0, errors.New("a JSON object has names, and no places")
	}
	typed, length, err := w.typedPath(keys)
	switch {
	case err != nil:
		return 0, err
	case length == 0:
		w.add(access{kind: accessPath, path: keys, canonical: keys}, coltype.Type{Kind: coltype.Dynamic, Name: "Dynamic", Text: "Dynamic"})
		w.untyped = true
		return taken, nil
	case ends[length] == 0:
		return 0, fmt.Errorf("the path %q has the type %s, of which this takes no part", excerpt.Of(strings.Join(keys[:length], ".")), excerpt.Of(typed.Text))
	}
	w.add(access{kind: accessPath, path: keys[:length], canonical: keys[:length]}, typed)
	return ends[length], nil
}

// typedPath returns the type of the longest typed path that keys begin with, and
// how many of them it is; 0 is none.
func (w *walker) typedPath(keys []string) (typed coltype.Type, length int, err error) {
	paths, err := w.typ.JSONPaths()
	if err != nil {
		return typed, 0, fmt.Errorf("the type of the column: %w", err)
	}
	for _, p := range paths {
		if n := strings.Count(p.Path, ".") + 1; n > length && n <= len(keys) && strings.Join(keys[:n], ".") == p.Path {
			typed, length = p.Type, n
		}
	}
	return typed, length, nil
}

func (w *walker) add(a access, to coltype.Type) {
	w.accesses, w.typ = append(w.accesses, a), to
}

// plainKey refuses what ClickHouse reads as more than a key in the name of a
// subcolumn: sub-objects, types and arrays.
func plainKey(key string) error {
	if key == "" || strings.ContainsAny(key, "`[]") || strings.ContainsAny(key[:1], "^:@") {
		return fmt.Errorf("a key of JSON like %q cannot be asked for", excerpt.Of(key))
	}
	return nil
}
