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

const sampleHead = `# WaveHouse boot configuration: every key with its default. Nothing here is set
# until its line is uncommented. Variables win over this file; docs/configuration.md
# has the same list with more words.
`

// Sample returns the text of config.yaml: every key with its default, commented
// out, so that the file changes nothing until a line is uncommented.
func Sample() string {
	var b strings.Builder
	b.WriteString(sampleHead)
	var open []string // the sections that the last key stood in
	defaults := Default()
	keys().Each(defaults, func(f spec.Field, v reflect.Value) {
		parts := strings.Split(f.Key, ".")
		open = writeSections(&b, open, parts[:len(parts)-1])
		indent := strings.Repeat("  ", len(open))
		fmt.Fprintf(&b, "%s# %s (%s)\n", indent, strings.ReplaceAll(f.Doc, "`", ""), f.Env)
		if f.OneOf != nil {
			fmt.Fprintf(&b, "%s# Of %s.\n", indent, strings.Join(f.OneOf, ", "))
		}
		text := keys().Text(defaults, f.Key)
		switch {
		case v.Kind() == reflect.Slice:
			text = "[" + strings.ReplaceAll(text, ",", ", ") + "]"
		case text == "":
			text = `""`
		}
		fmt.Fprintf(&b, "%s#%s: %s\n", indent, parts[len(parts)-1], text)
	})
	return b.String()
}

func writeSections(b *strings.Builder, open, want []string) []string {
	shared := 0
	for shared < len(open) && shared < len(want) && open[shared] == want[shared] {
		shared++
	}
	if len(want) == 0 || shared < len(want) {
		b.WriteString("\n")
	}
	for i := shared; i < len(want); i++ {
		fmt.Fprintf(b, "%s%s:\n", strings.Repeat("  ", i), want[i])
	}
	return want
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
