package policy

import "slices"

// Aggregations returns the names that allowed_aggregations and
// denied_aggregations may hold, sorted: the aggregations of a structured query.
func Aggregations() []string {
	return []string{
		"any", "any_last", "arg_max", "arg_min", "avg", "count", "count_distinct", "group_array", "group_uniq_array",
		"histogram", "max", "median", "min", "quantile", "quantiles",
		"stddev_pop", "stddev_samp", "sum", "top_k", "uniq", "var_pop", "var_samp",
	}
}

// family returns the aggregation whose rules also hold for fn because fn can be
// computed from it: whoever may not have quantiles may not have a median.
func family(fn string) string {
	switch fn {
	case "median", "quantiles":
		return "quantile"
	case "uniq":
		return "count_distinct"
	case "stddev_pop":
		return "var_pop"
	case "stddev_samp":
		return "var_samp"
	}
	return fn
}

func holds(names map[string]struct{}, fn string) bool {
	_, self := names[fn]
	_, parent := names[family(fn)]
	return self || parent
}

func knownAggregation(fn string) bool { return slices.Contains(Aggregations(), fn) }
