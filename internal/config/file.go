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
	w := yamlWalk{loader: l, path: path}
	w.section("", doc.Content[0])
}

// yamlWalk applies the nodes of one file.
type yamlWalk struct {
	*loader
	path string
}

func (w yamlWalk) section(prefix string, n *yaml.Node) {
	n = follow(n)
	if isNull(n) {
		return // a section whose keys are all commented out
	}
	if n.Kind != yaml.MappingNode {
		w.fault(n, strings.TrimSuffix(prefix, "."), "want keys and values here")
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := prefix + n.Content[i].Value
		if seen[name] {
			w.fault(n.Content[i], name, "the key is repeated")
			continue
		}
		seen[name] = true
		w.entry(name, n.Content[i], n.Content[i+1])
	}
}

func (w yamlWalk) entry(name string, at, value *yaml.Node) {
	if slices.ContainsFunc(w.keys, func(f spec.Field) bool { return strings.HasPrefix(f.Key, name+".") }) {
		w.section(name+".", value)
		return
	}
	if _, ok := w.keys.Lookup(name); ok {
		w.leaf(name, follow(value))
		return
	}
	if section := sectionOf(name); section != "" {
		w.unused = append(w.unused, unused{fmt.Sprintf("%s:%d: %s", w.path, at.Line, name), section})
		return
	}
	w.fault(at, name, "unknown key"+nearest.Hint(name, w.keyNames()))
}

func (w yamlWalk) leaf(key string, n *yaml.Node) {
	text, err := scalar(n)
	if n.Kind == yaml.SequenceNode && w.keys.Type(key).Kind() == reflect.Slice {
		text, err = list(n)
	}
	if err != nil {
		w.fault(n, key, err.Error())
		return
	}
	w.assign(key, text, source{OriginFile, fmt.Sprintf("%s:%d: %s", w.path, n.Line, key)})
}

func scalar(n *yaml.Node) (string, error) {
	switch {
	case isNull(n):
		return "", errors.New(`the key has no value; write "" for an empty one or leave the key out`)
	case n.Kind != yaml.ScalarNode:
		return "", errors.New("want one value here")
	}
	return n.Value, nil
}

func list(n *yaml.Node) (string, error) {
	var items []string
	for _, item := range n.Content {
		if item = follow(item); item.Kind != yaml.ScalarNode || isNull(item) {
			return "", errors.New("want a list of names")
		}
		items = append(items, item.Value)
	}
	return strings.Join(items, ","), nil
}

func (w yamlWalk) fault(n *yaml.Node, name, message string) {
	if name == "" {
		w.faultf("%s:%d: %s", w.path, n.Line, message)
		return
	}
	w.faultf("%s:%d: %s: %s", w.path, n.Line, name, message)
}

func (l *loader) keyNames() []string {
	var names []string
	for _, f := range l.keys {
		names = append(names, f.Key)
		for section := f.Key; strings.Contains(section, "."); {
			section = section[:strings.LastIndexByte(section, '.')]
			if !slices.Contains(names, section) {
				names = append(names, section)
			}
		}
	}
	return names
}

func follow(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }
