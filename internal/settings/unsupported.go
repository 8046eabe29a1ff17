package settings

import (
	"maps"
	"slices"

	"github.com/wavehouse/wavehouse/internal/strictjson"
)

// feature is something that settings can ask for and this version does not do.
// A row leaves the table when its feature arrives.
type feature struct {
	file    string
	message string
	// asked returns the paths in the file that ask for it.
	asked func(*documents) []string
}

func unsupportedFeatures() []feature {
	return []feature{
		{fileConfig, "dedupe is not supported by this version", dedupeAsked},
		{fileConfig, "rate limits of ingest are not supported by this version", func(d *documents) []string {
			return when(d.config.Ingest.Limits != nil, "ingest.limits")
		}},
		{fileConfig, "limits of queries are not supported by this version", func(d *documents) []string {
			return when(d.config.Query.Limits != nil, "query.limits")
		}},
	}
}

// refuseUnsupported adds an error for each use in the file of what this version
// lacks: settings that are accepted are settings that hold.
func refuseUnsupported(s *source, d *documents) {
	for _, f := range unsupportedFeatures() {
		if f.file != s.name {
			continue
		}
		for _, path := range f.asked(d) {
			s.error(path, f.message)
		}
	}
}

func when(asked bool, path string) []string {
	if asked {
		return []string{path}
	}
	return nil
}

func dedupeAsked(d *documents) []string {
	paths := when(d.config.Dedupe.Enabled, "dedupe.enabled")
	for _, table := range slices.Sorted(maps.Keys(d.config.Dedupe.Tables)) {
		if on := d.config.Dedupe.Tables[table].Enabled; on != nil && *on {
			paths = append(paths, strictjson.Join("dedupe.tables", table)+".enabled")
		}
	}
	return paths
}
