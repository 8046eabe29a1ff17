package integration

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// vaultTable has a column of each kind that a caller might get at a value
// through, secret, which is denied, and what is computed of them.
func vaultTable(name string) string {
	return "CREATE TABLE " + name + ` (event_id String, org String, page String, secret String, n Int64, d Decimal(18,2), f Float64,
	maybe Nullable(String), lc LowCardinality(String), e Enum8('one' = 1, 'two' = 2), arr Array(Int64), m Map(String, String),
	tup Tuple(a String, b Int64), ts DateTime64(3,'UTC'), day Date, ` + "`we``ird\\\\ \"name` String, `dotted.secret` String" + `,
	num Int64 ALIAS toInt64(page), at DateTime('UTC') ALIAS toDateTime(toInt64(page), 'UTC'), share Int64 ALIAS intDiv(100, n))
	ENGINE = MergeTree ORDER BY event_id SETTINGS index_granularity = 64`
}

// Words that only hidden rows and the denied column hold.
const (
	hiddenWord = "HIDDEN"
	secretWord = "SECRET"
)

// vaultRows inserts 300 visible rows of the organisation birch and, unless the
// table is the visible rows alone, 100 others among them.
func vaultRows(name string, hidden bool) string {
	const columns = `(event_id, org, page, secret, n, d, f, maybe, lc, e, arr, m, tup, ts, day, ` + "`we``ird\\\\ \"name`, `dotted.secret`" + `)`
	rows := "SELECT number % 4 = 3 AS h, if(h, 'HIDDEN', 'v') AS w, leftPad(toString(number), 4, '0') || w, if(h, if(number % 8 = 3, 'cedar', ''), 'birch')," +
		" if(h, 'HIDDEN-page', toString(number % 7)), 'SECRET-' || toString(number), if(h, 0, number % 50 + 1), if(h, 99999, number % 9), if(h, nan, number / 4)," +
		" if(h OR number % 5 = 0, if(h, 'HIDDEN', NULL), 'm' || toString(number % 3)), if(h, 'HIDDEN', 'lc' || toString(number % 4)), if(h, 'two', 'one')," +
		" if(h, [666, 667], [number % 3]), map('k', w), tuple(w, if(h, -666, number % 3))," +
		" toDateTime64(if(h, '2031-01-01 00:00:00.000', '2026-01-01 00:00:00.000'), 3, 'UTC') + number * 60, toDate(if(h, '2031-01-01', '2026-01-01'))," +
		" w || toString(number % 2), w || 'd' FROM numbers(400)"
	if !hidden {
		rows += " WHERE number % 4 != 3"
	}
	return "INSERT INTO " + name + " " + columns + " SELECT * EXCEPT (h, w) FROM (" + rows + ")"
}

const vaultPolicy = `{"tables":{
	"vault":{"analyst":{"select":{"deny_columns":["secret"],"filter":{"org":{"_eq":"{{ jwt.org }}"}}},"insert":{}}},
	"plain":{"analyst":{"select":{"deny_columns":["secret"]}}},
	"*":{"viewer":{"select":{}}}}}`

// vault is a server over two tables: vault, of which the caller may see the
// rows of birch, and plain, which holds nothing but those rows.
func vault(t *testing.T) (s *server, caller []string) {
	t.Helper()
	s = start(t, options{policies: vaultPolicy, logLevel: "error"}, vaultTable("vault"), vaultTable("plain"), vaultRows("vault", true), vaultRows("plain", false))
	require.Equal(t, "400", s.ch.Value(t, "SELECT count() FROM vault WHERE secret LIKE 'SECRET%'"))
	require.Equal(t, "100", s.ch.Value(t, "SELECT count() FROM vault WHERE page LIKE 'HIDDEN%' AND org != 'birch'"))
	require.Equal(t, "300", s.ch.Value(t, "SELECT count() FROM plain WHERE org = 'birch'"))
	return s, of(t, "analyst", jwt.MapClaims{"org": "birch"})
}

// noLeak holds an answer to say nothing of what is hidden, in any part of it.
// The words of the question may be repeated to who asked.
func noLeak(t *testing.T, a answer, question string) bool {
	t.Helper()
	text := a.body
	for name, values := range a.header {
		text += "\n" + name + ": " + strings.Join(values, ", ")
	}
	ok := true
	for _, word := range []string{hiddenWord, secretWord} {
		if !strings.Contains(question, word) {
			ok = assert.NotContains(t, text, word, question) && ok
		}
	}
	return ok
}

// alike asks both tables; the answers must be the same, and it returns one.
func (s *server) alike(t *testing.T, document string, caller []string) answer {
	t.Helper()
	got, want := s.query("vault", document, caller...), s.query("plain", document, caller...)
	noLeak(t, got, document)
	assert.Equal(t, want.status, got.status, "%s: %s", document, got.body)
	assert.Equal(t, told(t, want, document), told(t, got, document), document)
	return got
}

// told is what an answer says, without what differs by the table and the
// request. Rows that were not asked for in an order are put in one.
func told(t *testing.T, a answer, document string) any {
	t.Helper()
	if a.status != http.StatusOK {
		p := decode[problem](t, a)
		p.RequestID, p.Error = "", strings.ReplaceAll(p.Error, "plain", "vault")
		if p.ClickHouseCode != 0 {
			p.Error = "" // it names steps of its own
		}
		return p
	}
	var rows []string
	for _, row := range decode[[]json.RawMessage](t, a) {
		rows = append(rows, compact(t, row))
	}
	if !strings.Contains(document, "order_by") {
		slices.Sort(rows)
	}
	return rows
}
