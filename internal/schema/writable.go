package schema

import "strings"

// TakesInserts reports whether ClickHouse takes an INSERT into the table. An
// engine that is not known here is for ClickHouse to judge. A materialized view
// takes rows, and so do the engines that pass them on or forget them
// (Distributed, Buffer, Kafka, Null).
func (t *Table) TakesInserts() bool {
	switch t.Engine {
	case "View", "LiveView", "WindowView", "Merge", "Dictionary", "GenerateRandom", "FuzzJSON", "FuzzQuery",
		"Executable", "ExecutablePool", "MongoDB", "FileLog", "Loop":
		return false
	}
	return !strings.HasPrefix(t.Engine, "System")
}
