package schema

import (
	"strings"

	"github.com/wavehouse/wavehouse/internal/record"
)

// flagged is a column that an engine reads as a flag.
type flagged struct {
	column string
	flag   record.Flag
}

// flagOf finds the column that an engine reads as a flag in its definition, such as
// "ReplicatedReplacingMergeTree('/path', '{replica}', version, is_deleted) ORDER BY id".
// The sign of a VersionedCollapsingMergeTree is judged by nobody.
func flagOf(engine string) flagged {
	name, arguments, _ := strings.Cut(engine, "(")
	name = strings.TrimPrefix(strings.TrimPrefix(name, "Replicated"), "Shared")
	var own []string
	for rest := arguments; ; {
		text, replication := strings.CutPrefix(rest, "'")
		if !replication {
			list, _, _ := strings.Cut(rest, ")")
			own = strings.Split(list, ", ")
			break
		}
		_, rest, _ = strings.Cut(text, "'")
		rest = strings.TrimPrefix(rest, ", ")
	}
	switch {
	case name == "CollapsingMergeTree" && len(own) == 1:
		return flagged{strings.Trim(own[0], "`"), record.FlagSign}
	case name == "ReplacingMergeTree" && len(own) == 2:
		return flagged{strings.Trim(own[1], "`"), record.FlagDeleted}
	}
	return flagged{}
}
