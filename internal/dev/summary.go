package dev

import (
	"fmt"
	"strings"
)

// summary is the one screen that says what is running, where, and what to try.
func summary(o Options, c *clickhouse, table string) string {
	var b strings.Builder
	server := fmt.Sprintf("localhost:%d", o.Port)
	fmt.Fprintf(&b, `
WaveHouse is running. Ctrl-C stops everything; the data stays in %[1]s

  server      http://%[2]s        (log: %[3]s)
  ClickHouse  %[4]s  (%[5]s %[6]s)
  settings    %[7]s  (open to everyone on this machine; edits are adopted while it runs)
  operator    key in %[1]s/operator.key
`, o.Dir, server, logFile(o), strings.TrimSuffix(c.url(), "/"), c.kind, c.version, settingsDir(o))
	if table == "" {
		fmt.Fprintf(&b, `
Create a table of your own, then post to it:

  curl '%[1]s' --data-binary 'CREATE TABLE clicks (page String, at DateTime DEFAULT now()) ENGINE = MergeTree ORDER BY at'
  curl -X POST '%[2]s/v1/ingest?table=clicks' -H 'Content-Type: application/json' -d '{"page":"/home"}'
  curl -X POST '%[2]s/v1/query?table=clicks' -d '{"select_all":true,"limit":10}'

`, c.url(), server)
		return b.String()
	}
	fmt.Fprintf(&b, `
Paste these, the first in a terminal of its own:

  curl -N 'http://%[1]s/v1/stream?table=%[2]s'

  curl -X POST 'http://%[1]s/v1/ingest?table=%[2]s' -H 'Content-Type: application/json' \
    -d '{"flight_id":"mine-1","departed_at":"2001-07-01T12:00:00Z","origin":"SFO","destination":"JFK","delay":7,"distance":2586}'

  curl -X POST 'http://%[1]s/v1/query?table=%[2]s' \
    -d '{"columns":["origin"],"aggregations":[{"fn":"count","column":"*","alias":"flights"},{"fn":"avg","column":"delay","alias":"delay"}],"group_by":["origin"],"order_by":[{"column":"flights","dir":"desc"}],"limit":5}'

`, server, table)
	return b.String()
}
