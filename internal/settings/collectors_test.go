package settings

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCollectorsAreHeldAgainstTheTypesOfTheirColumns(t *testing.T) {
	collect, rest, page := UnknownCollect, "rest", "page"
	s := &Snapshot{Config: new(DefaultConfig())}
	s.Config.Ingest.Tables = map[string]IngestTable{
		"good": {UnknownFields: &collect, CollectInto: &rest}, "wrong": {UnknownFields: &collect, CollectInto: &page}, "none": {UnknownFields: &collect, CollectInto: &rest},
		"document": {UnknownFields: &collect, CollectInto: &rest}, "off": {CollectInto: &page},
	}
	found := Collectors(s, map[string]map[string]string{
		"good": {"rest": "Map(LowCardinality(String), String)"}, "document": {"rest": "JSON(max_dynamic_paths=8)"},
		"wrong": {"page": "Map(String, UInt8)"}, "none": {"page": "String", "resta": "String"}, "off": {"page": "String"}, "other": {},
	})
	var lines []string
	for _, f := range found {
		lines = append(lines, f.Severity+" "+f.Path+": "+f.Message)
	}
	assert.Equal(t, []string{
		`error ingest.tables.none.collect_into: table "none" has no column "rest"; did you mean "resta"?`,
		`error ingest.tables.wrong.collect_into: column "page" of table "wrong" is Map(String, UInt8), and takes no fields: it must be a Map(String, String) or a JSON`,
	}, lines)
}
