package query_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/policy"
	"github.com/wavehouse/wavehouse/internal/query"
)

func TestTimesThatARangeTakes(t *testing.T) {
	kolkata, err := time.LoadLocation("Asia/Kolkata")
	require.NoError(t, err)
	cases := []struct{ now, column, zone, since, want string }{
		// Numbers have the unit that their size tells, as in ingest.
		{"", "ms", "", `1730615400`, "2024-11-03 06:30:00.000"},
		{"", "ms", "", `1730615400123`, "2024-11-03 06:30:00.123"},
		{"", "ms", "", `"1730615400123"`, "2024-11-03 06:30:00.123"},
		{"", "ms", "", `1730615400.5`, "2024-11-03 06:30:00.500"},
		{"", "ms", "", `1730615400123456789`, "2024-11-03 06:30:00.124"},
		{"", "ms", "", `-86400`, "1969-12-31 00:00:00.000"},
		{"", "ns", "", `"1970-01-01T00:00:00.0000000001Z"`, "1970-01-01 00:00:00.000000001"},
		// A day begins at midnight in the zone.
		{"", "ms", "", `"2026-06-01"`, "2026-06-01 00:00:00.000"},
		{"", "ms", "Europe/Berlin", `"2026-06-01"`, "2026-05-31 22:00:00.000"},
		{"", "ms", "America/Sao_Paulo", `"2018-11-04"`, "2018-11-04 03:00:00.000"},
		{"", "ms", "Europe/Berlin", `"1900-01-02"`, "1900-01-01 23:00:00.000"},
		// One of a column of dates is that day; its zone is the server's, Kolkata.
		{"", "d", "", `"2026-06-01"`, "2026-06-01"},
		{"", "d", "Europe/Berlin", `"2026-06-01"`, "2026-06-01"},
		{"", "d", "America/Sao_Paulo", `"2018-11-04"`, "2018-11-04"},
		{"", "d", "", `"2026-05-31T18:30:00Z"`, "2026-06-01"},
		{"", "d", "Europe/Berlin", `"2026-05-31T22:00:00Z"`, "2026-06-01"},
		{"", "d", "America/St_Johns", `"2010-11-07T03:00:00Z"`, "2010-11-08"},
		{"2026-03-04T19:00:00Z", "d", "", `"today"`, "2026-03-05"},
		// Words.
		{"", "ms", "", `"now"`, "2026-03-04 05:06:00.000"},
		{"", "ms", "", `"today"`, "2026-03-04 00:00:00.000"},
		{"", "ms", "America/Los_Angeles", `"today"`, "2026-03-03 08:00:00.000"},
		{"", "ms", "Europe/Berlin", `"yesterday"`, "2026-03-02 23:00:00.000"},
		{"", "ms", "Europe/Berlin", `"tomorrow"`, "2026-03-04 23:00:00.000"},
		{"2026-10-25T12:00:00Z", "ms", "Europe/Berlin", `"today"`, "2026-10-24 22:00:00.000"},
		// A duration counts hours; with a minus sign, days are those of the calendar.
		{"2026-03-30T10:00:00Z", "ms", "Europe/Berlin", `"7d"`, "2026-03-23 10:00:00.000"},
		{"2026-03-30T10:00:00Z", "ms", "Europe/Berlin", `"-7d"`, "2026-03-23 11:00:00.000"},
		{"2026-03-30T10:00:00Z", "ms", "Europe/Berlin", `"-1w"`, "2026-03-23 11:00:00.000"},
		{"2026-03-30T10:00:00Z", "ms", "Europe/Berlin", `"-168h"`, "2026-03-23 10:00:00.000"},
		{"2026-03-30T10:00:00Z", "ms", "", `"-7d"`, "2026-03-23 10:00:00.000"},
		{"2026-03-30T00:30:00Z", "ms", "Europe/Berlin", `"-1d"`, "2026-03-29 01:00:00.000"}, // 02:30 was skipped
		{"2026-10-26T01:30:00Z", "ms", "Europe/Berlin", `"-1d"`, "2026-10-25 00:30:00.000"}, // 02:30 was shown twice
		{"2026-03-31T10:00:00Z", "ms", "", `"-1mo"`, "2026-02-28 10:00:00.000"},
		{"2024-02-29T10:00:00Z", "ms", "", `"-1y"`, "2023-02-28 10:00:00.000"},
		{"2024-02-29T10:00:00Z", "ms", "", `"1y"`, "2023-02-28 10:00:00.000"},
		{"2026-01-15T10:00:00Z", "ms", "", `"-1q"`, "2025-10-15 10:00:00.000"},
		{"2026-01-15T10:00:00Z", "ms", "", `"-1y2mo3d4h5m"`, "2024-11-12 05:55:00.000"},
		{"2026-01-15T10:00:59Z", "ms", "", `"-1mo"`, "2025-12-15 10:00:00.000"},
	}
	table := tableOf("times", kolkata, "ms", "DateTime64(3)", "ns", "DateTime64(9)", "d", "Date")
	for _, c := range cases {
		doc, err := query.Parse([]byte(`{"columns":["ms"],"time_range":{"column":"` + c.column + `","since":` + c.since + `,"time_zone":"` + c.zone + `"}}`))
		require.NoError(t, err, c.since)
		o := options()
		o.Zone = kolkata
		if c.now != "" {
			o.Now, err = time.Parse(time.RFC3339, c.now)
			require.NoError(t, err)
		}
		s, err := query.Build(doc, table, policy.OperatorSelect().Bind(nil, nil), o)
		require.NoError(t, err, "%+v", c)
		assert.Equal(t, params{"p0": c.want}, s.Params, "%+v", c)
	}
}
