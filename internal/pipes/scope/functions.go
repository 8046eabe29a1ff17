package scope

import (
	"strings"

	"github.com/wavehouse/wavehouse/internal/policy"
)

// harmlessTable reports whether a table function makes its rows of its
// arguments.
func harmlessTable(name string) bool {
	switch strings.ToLower(name) {
	case "numbers", "numbers_mt", "zeros", "zeros_mt", "values", "generate_series", "generateseries":
		return true
	}
	return false
}

// timeOrChance are functions that vary, and not by what is stored.
func timeOrChance(name string) bool {
	switch strings.ToLower(name) {
	case "now", "now64", "today", "yesterday", "curdate", "current_date", "current_timestamp", "utctimestamp", "utc_timestamp",
		"timezone", "servertimezone", "rand", "rand32", "rand64", "randcanonical", "generateuuidv4", "generateuuidv7":
		return true
	}
	return false
}

// tells reports whether an answer shows where rows are stored: an index hint
// holds for whole granules, with the rows in them that nobody shows.
func tells(name string) bool { return strings.EqualFold(name, "indexHint") }

// aggregations refuses what a grant of a table that is read denies. It is not
// known of which table an aggregation is.
func (n *narrowing) aggregations() error {
	for _, grant := range n.grants {
		if !grant.RestrictsAggregations() {
			continue
		}
		for _, name := range n.called {
			first, aggregates := n.functions.Aggregate(name)
			switch {
			case aggregates && !grant.AllowsAggregation(aggregationOf(first)):
				return denied("the aggregation %s is not allowed", name)
			case strings.HasPrefix(name, "arrayReduce"), name == "initializeAggregation":
				return denied("which aggregation %s makes is not told by its name", name)
			}
		}
	}
	return nil
}

// aggregationOf finds what policies call an aggregate function of ClickHouse's:
// the longest of their names that it begins with, or else its own.
func aggregationOf(function string) string {
	plain := func(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }
	known := function
	longest := 0
	for _, name := range policy.Aggregations() {
		if p := plain(name); len(p) > longest && strings.HasPrefix(plain(function), p) {
			known, longest = name, len(p)
		}
	}
	return known
}
