package settings

import (
	"strings"

	"github.com/wavehouse/wavehouse/internal/strictjson"
)

// Place is where a value of a tenant's settings was written.
type Place struct {
	File string
	Line int
}

// places are those of the limits that the files name, by their keys.
func (k *compiler) places() map[string]Place {
	var found map[string]Place
	note := func(s *source, key string) {
		if s.doc != nil && s.doc.Has(key) {
			if found == nil {
				found = map[string]Place{}
			}
			found[key] = Place{File: s.name, Line: s.doc.Line(key)}
		}
	}
	for _, s := range k.sources {
		switch s.name {
		case fileConfig:
			for _, f := range keys() {
				if limits(f.Key) {
					note(s, f.Key)
				}
			}
		case filePolicies:
			for table, entries := range k.docs.policies.Tables {
				for role := range entries {
					for _, name := range policyLimits() {
						note(s, SelectKey(table, role, name))
					}
				}
			}
		}
	}
	return found
}

// limits reports whether a key of config.json is one of a limit.
func limits(key string) bool {
	return strings.Contains(key, ".limits.") || strings.Contains(key, ".max_") || strings.HasSuffix(key, "_max_rows") || strings.HasSuffix(key, "query_timeout")
}

// policyLimits are the limits of a select grant.
func policyLimits() []string {
	return []string{"max_rows", "max_rows_to_read", "max_execution_time", "max_memory_usage"}
}

// SelectKey is the path of a key of a select grant in policies.json.
func SelectKey(table, role, name string) string {
	return strictjson.Join(strictjson.Join("tables", table), role) + ".select." + name
}
