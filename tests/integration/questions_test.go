package integration

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/tests/harness"
)

// dashboardQuestion is one that who builds a dashboard asks, as a document and as the
// statement that who knows SQL writes instead.
type dashboardQuestion struct{ asks, document, sql string }

// flightQuestions are about the demo's flights: 20,000 of the first quarter of 2001.
var flightQuestions = []dashboardQuestion{
	{
		"how many flights are there, from where, to where, and of what lengths",
		`{"aggregations":[{"fn":"count","alias":"flights"},{"fn":"count_distinct","column":"origin","alias":"airports"},{"fn":"min","column":"distance","alias":"shortest"},{"fn":"max","column":"distance","alias":"longest"},{"fn":"avg","column":"delay","alias":"delay"}]}`,
		`SELECT count() AS flights, uniqExact(origin) AS airports, min(distance) AS shortest, max(distance) AS longest, avg(delay) AS delay FROM flights`,
	},
	{
		"which airports are the busiest, and which share of their flights is late",
		`{"columns":["origin"],"aggregations":[{"fn":"count","alias":"flights"},{"fn":"ratio","alias":"late","scale":100,"numerator":{"fn":"count","where":[{"column":"delay","op":"gt","value":15}]},"denominator":{"fn":"count"}}],
			"group_by":["origin"],"order_by":[{"column":"flights","dir":"desc"},{"column":"origin"}],"limit":10}`,
		`SELECT origin, count() AS flights, countIf(delay > 15) * 100. / count() AS late FROM flights GROUP BY origin ORDER BY flights DESC, origin LIMIT 10`,
	},
	{
		"which airports with at least 200 flights are late most",
		`{"columns":["origin"],"aggregations":[{"fn":"avg","column":"delay","alias":"delay"},{"fn":"count","alias":"flights"}],"group_by":["origin"],
			"having":[{"column":"flights","op":"gte","value":200}],"order_by":[{"column":"delay","dir":"desc"}],"limit":5}`,
		`SELECT origin, avg(delay) AS delay, count() AS flights FROM (SELECT origin, delay FROM flights) GROUP BY origin HAVING flights >= 200 ORDER BY delay DESC LIMIT 5 SETTINGS prefer_column_name_to_alias = 0`,
	},
	{
		"how many flights leave on each day of New York",
		`{"time_bucket":{"column":"departed_at","every":"1d","time_zone":"America/New_York","alias":"day"},"aggregations":[{"fn":"count"}],"order_by":[{"column":"day"}]}`,
		`SELECT toTimeZone(toStartOfDay(departed_at, 'America/New_York'), 'UTC') AS day, count() AS count FROM flights GROUP BY day ORDER BY day`,
	},
	{
		"how many on the days around which Berlin set its clocks",
		`{"time_bucket":{"column":"departed_at","every":"1d","time_zone":"Europe/Berlin","alias":"day"},"time_range":{"column":"departed_at","since":"2001-03-24","until":"2001-03-27","time_zone":"Europe/Berlin"},"aggregations":[{"fn":"count"}],"order_by":[{"column":"day"}]}`,
		`SELECT toTimeZone(toStartOfDay(departed_at, 'Europe/Berlin'), 'UTC') AS day, count() AS count FROM flights
			WHERE departed_at >= toDateTime('2001-03-24 00:00:00', 'Europe/Berlin') AND departed_at < toDateTime('2001-03-27 00:00:00', 'Europe/Berlin') GROUP BY day ORDER BY day`,
	},
	{
		"how long are delays of each month: the median, and what one in ten and one in a hundred exceed",
		`{"time_bucket":{"column":"departed_at","every":"1mo","time_zone":"America/Chicago","alias":"month"},"aggregations":[{"fn":"quantiles","column":"delay","params":[0.5,0.9,0.99],"alias":"delays"}],"order_by":[{"column":"month"}]}`,
		`SELECT toTimeZone(toDateTime(toStartOfMonth(departed_at, 'America/Chicago'), 'America/Chicago'), 'UTC') AS month, quantiles(0.5, 0.9, 0.99)(delay) AS delays FROM flights GROUP BY month ORDER BY month`,
	},
	{
		"how many flights a week are there to Honolulu, weeks without one too",
		`{"time_bucket":{"column":"departed_at","every":"1w","alias":"week","fill":true},"time_range":{"column":"departed_at","since":"2001-02-26","until":"2001-04-16"},"filters":[{"column":"destination","op":"eq","value":"HNL"}],"aggregations":[{"fn":"count"},{"fn":"max","column":"delay","alias":"worst"}]}`,
		`SELECT week, if(found = 0, 0, n) AS count, if(found = 0, NULL, m) AS worst FROM (SELECT arrayJoin(arrayMap(i -> toDateTime('2001-02-26 00:00:00', 'UTC') + i * 604800, range(7))) AS week) AS weeks
			LEFT JOIN (SELECT toDateTime(toStartOfWeek(departed_at, 1, 'UTC'), 'UTC') AS week, count() AS n, max(delay) AS m, 1 AS found FROM flights WHERE destination = 'HNL' AND departed_at >= '2001-02-26 00:00:00' AND departed_at < '2001-04-16 00:00:00' GROUP BY week) AS counted USING week ORDER BY week`,
	},
	{
		"how does March compare with February, by airport",
		`{"columns":["origin"],"time_range":{"column":"departed_at","since":"2001-03-01","until":"2001-04-01"},"compare":"1mo","aggregations":[{"fn":"count","alias":"flights"},{"fn":"avg","column":"delay","alias":"delay"}],"group_by":["origin"],"order_by":[{"column":"flights","dir":"desc"},{"column":"origin"}],"limit":5}`,
		`SELECT origin, countIf(toMonth(departed_at) = 3) AS flights, countIf(toMonth(departed_at) = 2) AS flights_previous, avgIf(delay, toMonth(departed_at) = 3) AS delay, avgIf(delay, toMonth(departed_at) = 2) AS delay_previous
			FROM (SELECT * FROM flights WHERE departed_at >= '2001-02-01 00:00:00' AND departed_at < '2001-04-01 00:00:00') GROUP BY origin ORDER BY flights DESC, origin LIMIT 5 SETTINGS prefer_column_name_to_alias = 1`,
	},
	{
		"from where can one fly to Honolulu, or further than 2,500 miles",
		`{"distinct":true,"columns":["origin"],"filters":[{"or":[{"column":"destination","op":"eq","value":"HNL"},{"column":"distance","op":"gt","value":2500}]}],"order_by":[{"column":"origin"}]}`,
		`SELECT DISTINCT origin FROM flights WHERE destination = 'HNL' OR distance > 2500 ORDER BY origin`,
	},
	{
		"how many places does each large airport reach, and which are they",
		`{"columns":["origin"],"aggregations":[{"fn":"count_distinct","column":"destination","alias":"places"}],"group_by":["origin"],"having":[{"column":"places","op":"between","value":[60,500]}],"order_by":[{"column":"places","dir":"desc"},{"column":"origin"}]}`,
		`SELECT origin, uniqExact(destination) AS places FROM flights GROUP BY origin HAVING places BETWEEN 60 AND 500 ORDER BY places DESC, origin`,
	},
	{
		"how many flights are neither early nor late, between places that are neither in Texas nor Chicago",
		`{"aggregations":[{"fn":"count"}],"filters":[{"column":"delay","op":"between","value":[-5,15]},{"not":{"or":[{"column":"origin","op":"in","value":["DFW","IAH","ORD"]},{"column":"destination","op":"in","value":["DFW","IAH","ORD"]}]}}]}`,
		`SELECT count() AS count FROM flights WHERE delay BETWEEN -5 AND 15 AND NOT (origin IN ('DFW', 'IAH', 'ORD') OR destination IN ('DFW', 'IAH', 'ORD'))`,
	},
	{
		"which routes are flown most",
		`{"columns":["origin","destination"],"aggregations":[{"fn":"count","alias":"flights"},{"fn":"any","column":"distance","alias":"miles"}],"group_by":["origin","destination"],"order_by":[{"column":"flights","dir":"desc"},{"column":"origin"},{"column":"destination"}],"limit":10}`,
		`SELECT origin, destination, count() AS flights, any(distance) AS miles FROM flights GROUP BY origin, destination ORDER BY flights DESC, origin, destination LIMIT 10`,
	},
	{
		"the same, the second page",
		`{"columns":["origin","destination"],"aggregations":[{"fn":"count","alias":"flights"}],"group_by":["origin","destination"],"order_by":[{"column":"flights","dir":"desc"},{"column":"origin"},{"column":"destination"}],"limit":10,"offset":10}`,
		`SELECT origin, destination, count() AS flights FROM flights GROUP BY origin, destination ORDER BY flights DESC, origin, destination LIMIT 10 OFFSET 10`,
	},
	{
		"how many flights are of which length",
		`{"aggregations":[{"fn":"histogram","column":"distance","params":[8],"alias":"lengths"}]}`,
		`SELECT CAST(histogram(8)(distance), 'Array(Tuple(lower Float64, upper Float64, count Float64))') AS lengths FROM flights`,
	},
	{
		"which flight was the latest of each month, and where did it go",
		`{"time_bucket":{"column":"departed_at","every":"1mo","alias":"month"},"aggregations":[{"fn":"max","column":"delay","alias":"minutes"},{"fn":"arg_max","column":"flight_id","by":"delay","alias":"flight"},{"fn":"arg_max","column":"destination","by":"delay","alias":"went_to"}],"order_by":[{"column":"month"}]}`,
		`SELECT toDateTime(toStartOfMonth(departed_at), 'UTC') AS month, max(delay) AS minutes, argMax(flight_id, delay) AS flight, argMax(destination, delay) AS went_to FROM flights GROUP BY month ORDER BY month`,
	},
	{
		"how late were late flights of the longest and of the shorter routes, by month",
		`{"time_bucket":{"column":"departed_at","every":"1mo","alias":"month"},"order_by":[{"column":"month"}],"filters":[{"column":"delay","op":"gt","value":0}],
			"aggregations":[{"fn":"avg","column":"delay","alias":"far","where":[{"column":"distance","op":"gte","value":1500}]},{"fn":"avg","column":"delay","alias":"near","where":[{"column":"distance","op":"lt","value":1500}]},{"fn":"max","column":"delay","alias":"furthest","where":[{"column":"distance","op":"gt","value":5000}]}]}`,
		`SELECT toDateTime(toStartOfMonth(departed_at), 'UTC') AS month, avgIf(delay, distance >= 1500) AS far, avgIf(delay, distance < 1500) AS near, maxOrNullIf(delay, distance > 5000) AS furthest FROM flights WHERE delay > 0 GROUP BY month ORDER BY month`,
	},
	{
		"where do most flights from Hawaii go",
		`{"columns":["origin"],"aggregations":[{"fn":"top_k","column":"destination","params":[2],"alias":"places"}],"filters":[{"column":"origin","op":"in","value":["HNL","OGG"]}],"group_by":["origin"],"order_by":[{"column":"origin"}]}`,
		`SELECT origin, topK(2)(destination) AS places FROM flights WHERE origin IN ('HNL', 'OGG') GROUP BY origin ORDER BY origin`,
	},
	{
		"which airports begin with D or have an SF in them",
		`{"columns":["origin"],"aggregations":[{"fn":"count"}],"filters":[{"or":[{"column":"origin","op":"starts_with","value":"D"},{"column":"origin","op":"ilike","value":"%sf%"}]}],"group_by":["origin"],"order_by":[{"column":"origin"}]}`,
		`SELECT origin, count() AS count FROM flights WHERE startsWith(origin, 'D') OR origin ILIKE '%sf%' GROUP BY origin ORDER BY origin`,
	},
	{
		"what were the last three flights from Denver",
		`{"columns":["flight_id","departed_at","destination"],"filters":[{"column":"origin","op":"eq","value":"DEN"}],"order_by":[{"column":"departed_at","dir":"desc"},{"column":"flight_id"}],"limit":3}`,
		`SELECT flight_id, departed_at, destination FROM flights WHERE origin = 'DEN' ORDER BY departed_at DESC, flight_id LIMIT 3`,
	},
	{
		"how many flights were there in February as Los Angeles counts days",
		`{"aggregations":[{"fn":"count"}],"time_range":{"column":"departed_at","since":"2001-02-01","until":"2001-03-01","time_zone":"America/Los_Angeles"}}`,
		`SELECT count() AS count FROM flights WHERE toYYYYMM(departed_at, 'America/Los_Angeles') = 200102`,
	},
	{
		"which airports had no delay at all, on the mean of a quarter",
		`{"columns":["origin"],"time_bucket":{"column":"departed_at","every":"1q","alias":"quarter"},"aggregations":[{"fn":"median","column":"delay","alias":"median"},{"fn":"stddev_samp","column":"delay","alias":"spread"}],"group_by":["origin"],"having":[{"column":"median","op":"lt","value":-10}],"order_by":[{"column":"origin"}]}`,
		`SELECT origin, toDateTime(toStartOfQuarter(departed_at), 'UTC') AS quarter, median(delay) AS median, stddevSamp(delay) AS spread FROM flights GROUP BY origin, quarter HAVING median < -10 ORDER BY origin`,
	},
}

// visitQuestions are about visits of a shop's pages, whose attributes are keys of a map
// and paths of JSON.
var visitQuestions = []dashboardQuestion{
	{
		"how many visits and buyers are there by browser",
		`{"columns":["attrs.browser"],"aggregations":[{"fn":"count","alias":"visits"},{"fn":"count_distinct","column":"user","alias":"buyers","where":[{"column":"event","op":"eq","value":"buy"}]}],"group_by":["attrs.browser"],"order_by":[{"column":"visits","dir":"desc"},{"column":"attrs.browser"}]}`,
		"SELECT if(mapContains(attrs, 'browser'), attrs['browser'], NULL) AS `attrs.browser`, count() AS visits, uniqExactIf(user, event = 'buy') AS buyers FROM visits GROUP BY `attrs.browser` ORDER BY visits DESC, `attrs.browser`",
	},
	{
		"which share of visitors from a campaign buys, for campaigns with a hundred visits",
		`{"columns":["attrs.campaign"],"aggregations":[{"fn":"count","alias":"visits"},{"fn":"ratio","alias":"conversion","numerator":{"fn":"count_distinct","column":"user","where":[{"column":"event","op":"eq","value":"buy"}]},"denominator":{"fn":"count_distinct","column":"user"}}],
			"filters":[{"column":"attrs.campaign","op":"is_not_null"}],"group_by":["attrs.campaign"],"having":[{"column":"visits","op":"gte","value":100},{"column":"attrs.campaign","op":"neq","value":"test"}],"order_by":[{"column":"conversion","dir":"desc"}]}`,
		"SELECT attrs['campaign'] AS `attrs.campaign`, count() AS visits, uniqExactIf(user, event = 'buy') / uniqExact(user) AS conversion FROM visits WHERE mapContains(attrs, 'campaign') GROUP BY `attrs.campaign` HAVING visits >= 100 AND `attrs.campaign` != 'test' ORDER BY conversion DESC",
	},
	{
		"what does a purchase bring, by the tag that visitors have, and with what did they look last",
		`{"columns":["tags[1]"],"aggregations":[{"fn":"sum","column":"price","alias":"revenue"},{"fn":"avg","column":"price","alias":"each"},{"fn":"arg_max","column":"attrs.browser","by":"at","alias":"last_by"}],"filters":[{"column":"event","op":"eq","value":"buy"},{"column":"tags","op":"contains","value":"eu"}],"group_by":["tags[1]"],"order_by":[{"column":"tags[1]"}]}`,
		"SELECT tags[1] AS `tags[1]`, sum(price) AS revenue, avg(price) AS each, argMax(if(mapContains(attrs, 'browser'), attrs['browser'], NULL), at) AS last_by FROM visits WHERE event = 'buy' AND has(tags, 'eu') GROUP BY `tags[1]` ORDER BY `tags[1]`",
	},
	{
		"how did revenue of each day go, compared with the week before, and days without any",
		`{"time_bucket":{"column":"at","every":"1d","time_zone":"Europe/Berlin","alias":"day","fill":true},"time_range":{"column":"at","since":"2026-03-28","until":"2026-04-04","time_zone":"Europe/Berlin"},"compare":"7d","aggregations":[{"fn":"sum","column":"price","alias":"revenue"}]}`,
		`SELECT toTimeZone(toStartOfDay(at + if(early, 0, 0), 'Europe/Berlin'), 'UTC') AS day, sum(if(early, 0, price)) AS revenue, sum(if(early, price, 0)) AS revenue_previous FROM
			(SELECT price, at < toDateTime('2026-03-28 00:00:00', 'Europe/Berlin') AS early, if(early, addDays(toTimeZone(visits.at, 'Europe/Berlin'), 7), toTimeZone(visits.at, 'Europe/Berlin')) AS at FROM visits
			WHERE visits.at >= toDateTime('2026-03-21 00:00:00', 'Europe/Berlin') AND visits.at < toDateTime('2026-04-04 00:00:00', 'Europe/Berlin')) GROUP BY day ORDER BY day SETTINGS prefer_column_name_to_alias = 1`,
	},
	{
		"which pages do the most different visitors see, and in which three browsers mostly",
		`{"columns":["page"],"aggregations":[{"fn":"count_distinct","column":"user","alias":"visitors"},{"fn":"top_k","column":"attrs.browser","params":[3],"alias":"browsers"},{"fn":"group_uniq_array","column":"event","params":[1],"where":[{"column":"event","op":"neq","value":"view"}],"alias":"acts"}],"group_by":["page"],"order_by":[{"column":"visitors","dir":"desc"},{"column":"page"}],"limit":3}`,
		"SELECT page, uniqExact(user) AS visitors, topK(3)(if(mapContains(attrs, 'browser'), attrs['browser'], NULL)) AS browsers, groupUniqArrayIf(1)(event, event != 'view') AS acts FROM visits GROUP BY page ORDER BY visitors DESC, page LIMIT 3",
	},
	{
		"how many seats do those ask for who ask for a number of them",
		`{"aggregations":[{"fn":"count","alias":"asked"},{"fn":"count","alias":"many","where":[{"column":"payload.seats","op":"gte","value":5}]},{"fn":"max","column":"payload.user.age","alias":"oldest"}],"filters":[{"column":"payload.seats","op":"gt","value":0}]}`,
		"SELECT count() AS asked, countIf(payload.seats.:Int64 >= 5) AS many, max(payload.user.age) AS oldest FROM visits WHERE payload.seats.:Int64 > 0",
	},
}

// visits are 6,000 events of three weeks, around a day on which clocks are set.
const visits = `INSERT INTO visits SELECT toDateTime('2026-03-20 00:00:00', 'UTC') + number * 307, 'u' || toString(number * 7 % 1009), ['view', 'view', 'cart', 'buy'][number % 4 + 1], '/p' || toString(number % 11),
	multiIf(number % 9 = 0, map(), number % 3 = 0, map('browser', ['Firefox', 'Chrome', 'Safari'][number % 5 % 3 + 1]), map('browser', 'Chrome', 'campaign', ['spring', 'test', 'rare'][if(number % 100 = 1, 3, number % 2 + 1)])),
	[['eu', 'us'][number % 2 + 1], 'eu'], if(event = 'buy', toDecimal64(number % 97, 2) + 0.25, 0),
	if(number % 3 = 0, '{"user":{"age":' || toString(18 + number % 60) || '}}', '{"user":{"age":' || toString(18 + number % 60) || '},"seats":' || if(number % 5 = 0, '"many"', toString(number % 8)) || '}')
	FROM (SELECT number, ['view', 'view', 'cart', 'buy'][number % 4 + 1] AS event FROM numbers(6000))`

func TestFirstDayQuestionsOfPartsOfColumns(t *testing.T) {
	t.Parallel()
	s := start(t, options{}, `CREATE TABLE visits (at DateTime('UTC'), user String, event LowCardinality(String), page String, attrs Map(String, String), tags Array(String), price Decimal(9, 2), payload JSON(user.age UInt8)) ENGINE = MergeTree ORDER BY at`, visits)
	for _, q := range visitQuestions {
		s.answersAsByHand("visits", q)
	}
}

// TestFirstDayQuestions: each is answered as by hand, to who may see everything, and
// to who may not see what leaves one airport.
func TestFirstDayQuestions(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(harness.Root(t), ".cache", "demo", "flights.ndjson"))
	require.NoError(t, err, "make deps fetches the demo's data")
	s := start(t, options{policies: `{"default_role":"public","tables":{"flights":{"public":{"select":{}},"viewer":{"select":{"filter":{"origin":{"_neq":"DFW"}}}}}}}`},
		`CREATE TABLE flights (flight_id String, departed_at DateTime('UTC'), origin LowCardinality(String), destination LowCardinality(String), delay Int16, distance UInt16) ENGINE = MergeTree ORDER BY (origin, departed_at)`,
		`INSERT INTO flights SETTINGS date_time_input_format = 'best_effort' FORMAT JSONEachRow `+string(data))
	assert.GreaterOrEqual(t, len(flightQuestions), 20)
	for _, q := range flightQuestions {
		s.answersAsByHand("flights", q)
		q.sql = strings.ReplaceAll(q.sql, "FROM flights", "FROM (SELECT * FROM flights WHERE origin != 'DFW')")
		s.answersAsByHand("flights", q, as(t, "viewer")...)
	}

	a := s.query("flights", `{"totals":true,"columns":["origin"],"aggregations":[{"fn":"count"},{"fn":"median","column":"delay"},{"fn":"count_distinct","column":"destination"}],"group_by":["origin"],"having":[{"column":"count","op":"gt","value":900}],"order_by":[{"column":"origin"}]}`)
	require.Equal(t, http.StatusOK, a.status, a.body)
	var got totalled
	require.NoError(t, json.Unmarshal([]byte(a.body), &got))
	assert.JSONEq(t, s.byHand(`SELECT origin, count() AS count, median(delay) AS median_delay, uniqExact(destination) AS count_distinct_destination FROM flights GROUP BY origin HAVING count > 900 ORDER BY origin`), joined(got.Rows))
	assert.JSONEq(t, s.byHand(`SELECT NULL AS origin, count() AS count, median(delay) AS median_delay, uniqExact(destination) AS count_distinct_destination FROM flights WHERE flights.origin IN ('DFW', 'ORD')`), joined([]json.RawMessage{got.Totals}))
}

// answersAsByHand compares the two ways to ask.
func (s *server) answersAsByHand(table string, q dashboardQuestion, headers ...string) {
	s.t.Helper()
	a := s.query(table, q.document, headers...)
	if assert.Equal(s.t, http.StatusOK, a.status, "%s: %s", q.asks, a.body) {
		assert.JSONEq(s.t, s.byHand(q.sql), a.body, q.asks)
		assert.Contains(s.t, a.body, "{", "%s: nothing is a poor answer to compare", q.asks)
	}
}

// byHand is what a statement answers, as an array of rows.
func (s *server) byHand(sql string) string {
	s.t.Helper()
	statement, settings, _ := strings.Cut(sql, " SETTINGS ")
	if settings != "" {
		settings += ", "
	}
	text, err := s.ch.Try(statement + " SETTINGS " + settings + "date_time_output_format = 'iso', output_format_json_quote_64bit_integers = 0, output_format_json_quote_denormals = 0, output_format_json_array_of_rows = 1 FORMAT JSONEachRow")
	require.NoError(s.t, err, sql)
	return text
}

func joined(rows []json.RawMessage) string {
	texts := make([]string, len(rows))
	for i, row := range rows {
		texts[i] = string(row)
	}
	return "[" + strings.Join(texts, ",") + "]"
}

// What is more to fill than may be is a fault of the document, although ClickHouse
// finds it, and is told to callers who are told nothing of hidden rows.
func TestMoreToFillThanMayBe(t *testing.T) {
	t.Parallel()
	s := start(t, options{policies: `{"default_role":"public","tables":{"*":{"public":{"select":{"filter":{"org":{"_eq":"birch"}}}}}}}`}, pagesTable,
		"INSERT INTO pages SELECT toString(number), '/', 'birch', '', number, toDateTime64('2026-01-01 00:00:00', 3, 'UTC') + number * 10000000 FROM numbers(2)")
	p := refused(t, s.query("pages", `{"time_bucket":{"column":"ts","every":"1s","fill":true},"aggregations":[{"fn":"count"}]}`), http.StatusBadRequest, "query.invalid")
	assert.Contains(t, p.Error, "more than 10000 buckets")
}
