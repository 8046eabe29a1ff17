package config

import (
	"cmp"
	_ "embed"
	"reflect"
	"strings"

	"github.com/wavehouse/wavehouse/internal/spec"
)

//go:embed reference.tmpl
var referencePage string

// Reference returns the page that lists every boot key, in Markdown.
func Reference() string {
	return strings.Replace(referencePage, "{{keys}}", keys().Reference(""), 1)
}

// Setting is one key of the effective configuration, a secret as its mask.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin Origin `json:"origin"`
}

// Effective returns every key with its value and where that came from.
func (c *Config) Effective() []Setting {
	var list []Setting
	keys().Each(c, func(f spec.Field, _ reflect.Value) {
		origin := cmp.Or(c.sources[f.Key].origin, OriginDefault)
		list = append(list, Setting{Key: f.Key, Value: keys().Text(c, f.Key), Origin: origin})
	})
	return list
}
