package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/wavehouse/wavehouse/internal/nearest"
	"github.com/wavehouse/wavehouse/internal/spec"
)

// file applies the configuration file; path is "" when no variable names one.
func (l *loader) file(path string) {
	named := path != ""
	if !named {
		path = DefaultFile
	}
	data, err := readBounded(path)
	switch {
	case errors.Is(err, os.ErrNotExist) && named:
		l.warnf("%s: there is no file %q", fileVariable, path)
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		l.faultf("%s: %v", path, err)
	default:
		l.yaml(path, data)
	}
}

func (l *loader) yaml(path string, data []byte) {
	var doc yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	switch err := decoder.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return // nothing but comments
	case err != nil:
		l.faultf("%s: %v", path, err)
		return
	}
	if err := decoder.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		l.faultf("%s: there is more than one document", path)
		return
	}
	l.section(path, "", doc.Content[0])
}

// section applies the keys below a prefix. path is the file's.
func (l *loader) section(path, prefix string, n *yaml.Node) {
	if n.Tag == nullTag {
		return // a section whose keys are all commented out
	}
	if n.Kind != yaml.MappingNode {
		l.faultf("%s: want keys and values here", place(path, strings.TrimSuffix(prefix, "."), n))
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := prefix + n.Content[i].Value
		if seen[name] {
			l.faultf("%s: the key is repeated", place(path, name, n.Content[i]))
			continue
		}
		seen[name] = true
		l.entry(path, name, n.Content[i], follow(n.Content[i+1]))
	}
}

func (l *loader) entry(path, name string, at, value *yaml.Node) {
	if slices.ContainsFunc(l.keys, func(f spec.Field) bool { return strings.HasPrefix(f.Key, name+".") }) {
		l.section(path, name+".", value)
		return
	}
	if _, ok := l.keys.Lookup(name); !ok {
		l.faultf("%s: unknown key%s", place(path, name, at), nearest.Hint(name, l.keyNames()))
		return
	}
	text, err := l.text(name, value)
	if err != nil {
		l.faultf("%s: %v", place(path, name, value), err)
		return
	}
	l.assign(name, text, source{OriginFile, place(path, name, value)})
}

// text is a key's value as a variable would hold it.
func (l *loader) text(key string, n *yaml.Node) (string, error) {
	switch {
	case n.Tag == nullTag:
		return "", errors.New(`the key has no value; write "" for an empty one or leave the key out`)
	case n.Kind == yaml.ScalarNode:
		return n.Value, nil
	case n.Kind != yaml.SequenceNode || l.keys.Type(key).Kind() != reflect.Slice:
		return "", errors.New("want one value here")
	}
	var items []string
	for _, item := range n.Content {
		if item = follow(item); item.Kind != yaml.ScalarNode || item.Tag == nullTag {
			return "", errors.New("want a list of names")
		}
		items = append(items, item.Value)
	}
	return strings.Join(items, ","), nil
}

// place names where a value stands.
func place(path, name string, n *yaml.Node) string {
	at := fmt.Sprintf("%s:%d", path, n.Line)
	if name == "" {
		return at
	}
	return at + ": " + name
}

// keyNames returns every key and section.
func (l *loader) keyNames() []string {
	var names []string
	for _, f := range l.keys {
		for i, c := range f.Key {
			if c == '.' {
				names = append(names, f.Key[:i])
			}
		}
		names = append(names, f.Key)
	}
	return names
}

// nullTag is that of a value that was left out.
const nullTag = "!!null"

func follow(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}
