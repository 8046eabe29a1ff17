package torture

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"
)

// outcome is what a client knows about a row.
type outcome byte

const (
	inFlight outcome = iota
	answered         // 200: it must be accounted for
	refused          // its own fault, or 4xx: it must be nowhere
	unknown          // 503, or no answer: it may be either
)

// table is a table of one tenant, and what became of the rows sent to it.
type table struct {
	tenant, name string
	// picky has a constraint that only ClickHouse knows: rows that break it are
	// answered 200 and refused later.
	picky bool

	mu       sync.Mutex
	first    int // the number of outcomes[0]
	outcomes []outcome
}

// pickiness is how many rows of a picky table there are to one bad one.
const pickiness = 500

func (tb *table) database() string { return "db_" + tb.tenant }

// sql is the table's name in a statement.
func (tb *table) sql() string { return tb.database() + ".`" + tb.name + "`" }

func (tb *table) String() string { return tb.tenant + "/" + tb.name }

// create is the statement that makes it. stored_at tells INSERTs apart: it is
// the same for all rows of one.
func (tb *table) create() string {
	constraint, settings := "", ""
	if tb.picky {
		constraint = fmt.Sprintf(", CONSTRAINT picky CHECK n %% %d != 0", pickiness)
	}
	if tb.name == "clicks" {
		settings = " SETTINGS non_replicated_deduplication_window = 1000"
	}
	return "CREATE TABLE " + tb.sql() + " (id String, n UInt64, name String, score Float64, at DateTime64(3, 'UTC')," +
		" tags Array(String), opt Nullable(Int64), sum String, stored_at DateTime64(6, 'UTC') DEFAULT now64(6)" + constraint +
		") ENGINE = MergeTree ORDER BY n" + settings
}

// stored selects, for each copy of a row, its number and id, the sum that was
// sent, the sum of what is stored, and when it was stored.
func (tb *table) stored() string {
	return "SELECT n, id, sum, lower(hex(MD5(concat(id, '|', toString(n), '|', name, '|', toString(score), '|', toString(at), '|'," +
		" arrayStringConcat(tags, ','), '|', ifNull(toString(opt), '')))))," +
		" toUnixTimestamp64Micro(stored_at) FROM " + tb.sql() + " ORDER BY stored_at FORMAT TSV"
}

// poison reports whether ClickHouse refuses row n.
func (tb *table) poison(n int) bool { return tb.picky && n%pickiness == 0 }

// reserve takes numbers for so many new rows.
func (tb *table) reserve(rows int) (first int) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	first = tb.first + len(tb.outcomes)
	tb.outcomes = append(tb.outcomes, make([]outcome, rows)...)
	return first
}

// settle notes what became of row n.
func (tb *table) settle(n int, o outcome) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.outcomes[n-tb.first] = o
}

// outcome returns what is known of row n; ok is false for a number that was
// never given out.
func (tb *table) outcome(n int) (o outcome, ok bool) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	if n < tb.first || n >= tb.first+len(tb.outcomes) {
		return 0, false
	}
	return tb.outcomes[n-tb.first], true
}

// answeredRows are the numbers of the rows that were answered.
func (tb *table) answeredRows() []int {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	var rows []int
	for i, o := range tb.outcomes {
		if o == answered {
			rows = append(rows, tb.first+i)
		}
	}
	return rows
}

// forget begins a new ledger behind the rows sent so far.
func (tb *table) forget() {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.first += len(tb.outcomes)
	tb.outcomes = nil
}

// row is a row's content, which follows from its table and number.
type row struct {
	ID    string    `json:"id"`
	N     uint64    `json:"n"`
	Name  string    `json:"name"`
	Score float64   `json:"score"`
	At    time.Time `json:"at"`
	Tags  []string  `json:"tags"`
	Opt   *int64    `json:"opt,omitempty"`
	Sum   string    `json:"sum"`
}

var names = []string{"plain", "a,b \"quoted\"", "line\nbreak", "tab\tand \\ backslash", "日本 ünïcode", "it's", " spaces ", "0"}

func (tb *table) row(n int) row {
	h := fnv.New64a()
	_, _ = h.Write([]byte(tb.String()))
	rng := rand.New(rand.NewPCG(h.Sum64(), uint64(n)))
	r := row{
		ID: fmt.Sprintf("%s/%d", tb, n), N: uint64(n),
		Name:  names[rng.IntN(len(names))] + strings.Repeat("x", rng.IntN(120)),
		Score: float64(rng.IntN(200_000)-100_000) / 4,
		At:    time.UnixMilli(1_700_000_000_000 + rng.Int64N(100_000_000_000)).UTC(),
		Tags:  make([]string, rng.IntN(4)),
	}
	for i := range r.Tags {
		r.Tags[i] = "t" + strconv.Itoa(rng.IntN(1000))
	}
	if rng.IntN(3) > 0 {
		opt := rng.Int64() - 1<<62
		r.Opt = &opt
	}
	r.Sum = r.digest()
	return r
}

// digest is the sum of everything but the sum.
func (r row) digest() string {
	opt := ""
	if r.Opt != nil {
		opt = strconv.FormatInt(*r.Opt, 10)
	}
	text := strings.Join([]string{
		r.ID, strconv.FormatUint(r.N, 10), r.Name, strconv.FormatFloat(r.Score, 'f', -1, 64),
		r.At.UTC().Format("2006-01-02 15:04:05.000"), strings.Join(r.Tags, ","), opt,
	}, "|")
	sum := md5.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// json is the row as JSON; a broken one has a score that is no number.
func (r row) json(broken bool) string {
	text, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	if broken {
		score := strconv.FormatFloat(r.Score, 'f', -1, 64)
		return strings.Replace(string(text), `"score":`+score, `"score":"much"`, 1)
	}
	return string(text)
}

const csvHeader = "n,id,score,name,at,tags,opt,sum\r\n"

// csv is the row as a line of CSV.
func (r row) csv(broken bool) string {
	score, opt := strconv.FormatFloat(r.Score, 'f', -1, 64), ""
	if broken {
		score = "much"
	}
	if r.Opt != nil {
		opt = strconv.FormatInt(*r.Opt, 10)
	}
	tags, err := json.Marshal(r.Tags)
	if err != nil {
		panic(err)
	}
	quote := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
	return strings.Join([]string{
		strconv.FormatUint(r.N, 10), quote(r.ID), score, quote(r.Name), r.At.Format(time.RFC3339Nano), quote(string(tags)), opt, r.Sum,
	}, ",") + "\r\n"
}
