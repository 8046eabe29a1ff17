package config

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"text/tabwriter"

	"github.com/wavehouse/wavehouse/internal/spec"
)

//go:embed reference.tmpl
var referencePage string

// Reference returns the page that lists every boot key, in Markdown.
func Reference() string {
	return strings.Replace(referencePage, "{{keys}}", keys().Reference(""), 1)
}

// setting is one line of the effective configuration.
type setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin Origin `json:"origin"`
}

func (c *Config) effective() []setting {
	var list []setting
	keys().Each(c, func(f spec.Field, _ reflect.Value) {
		origin := c.sources[f.Key].origin
		if origin == "" {
			origin = OriginDefault
		}
		list = append(list, setting{Key: f.Key, Value: keys().Text(c, f.Key), Origin: origin})
	})
	return list
}

// Effective writes every key with its value and where that came from, secrets
// masked. asJSON selects an array of objects instead of a table.
func (c *Config) Effective(w io.Writer, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(c.effective())
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "KEY\tVALUE\tORIGIN")
	for _, s := range c.effective() {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", s.Key, s.Value, s.Origin)
	}
	return table.Flush()
}
