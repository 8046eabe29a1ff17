package settings

import (
	"fmt"
	"maps"
	"slices"

	"github.com/wavehouse/wavehouse/internal/nearest"
	"github.com/wavehouse/wavehouse/internal/record"
	"github.com/wavehouse/wavehouse/internal/strictjson"
)

// checkCollectors wants a column where unknown fields are collected, and
// unknown fields where there is one.
func checkCollectors(s *source, c *Config) {
	for _, table := range slices.Sorted(maps.Keys(c.Ingest.Tables)) {
		path := strictjson.Join("ingest.tables", table)
		switch rules := c.IngestFor(table); {
		case rules.UnknownFields == UnknownCollect && rules.CollectInto == "":
			s.error(path+".unknown_fields", "name the column to collect into: collect_into")
		case rules.UnknownFields != UnknownCollect && c.Ingest.Tables[table].CollectInto != nil:
			s.warn(path+".collect_into", fmt.Sprintf("does nothing while unknown_fields is %q", rules.UnknownFields))
		}
	}
}

// Collectors holds the columns that unknown fields are collected in against the
// types that the columns of the tenant's tables have.
func Collectors(s *Snapshot, types map[string]map[string]string) []Finding {
	var findings []Finding
	for _, table := range slices.Sorted(maps.Keys(types)) {
		rules := s.Config.IngestFor(table)
		if rules.UnknownFields != UnknownCollect || table == AllTables {
			continue
		}
		entry := table
		if !has(s.Config.Ingest.Tables, table) || s.Config.Ingest.Tables[table].CollectInto == nil {
			entry = AllTables
		}
		message := ""
		switch text, ok := types[table][rules.CollectInto]; {
		case !ok:
			names := slices.Sorted(maps.Keys(types[table]))
			message = fmt.Sprintf("table %q has no column %q", table, rules.CollectInto) + nearest.Hint(rules.CollectInto, names)
		case record.Collects(text) == "":
			message = fmt.Sprintf("column %q of table %q is %s, and takes no fields: it must be a Map(String, String) or a JSON", rules.CollectInto, table, text)
		default:
			continue
		}
		severity := SeverityError
		if entry == AllTables {
			severity = SeverityWarning // meant for tables that have it
		}
		findings = append(findings, Finding{Severity: severity, File: fileConfig, Path: strictjson.Join("ingest.tables", entry) + ".collect_into", Message: message})
	}
	return findings
}
