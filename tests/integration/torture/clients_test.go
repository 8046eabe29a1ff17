package torture

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// clients send at once.
	clients = 6
	// rowPause is what each client waits per row it sent, so that a run has a
	// bounded number of rows: clients/rowPause a second.
	rowPause = 1500 * time.Microsecond
	// maxBatch is the most rows of a body.
	maxBatch = 400
	// maxComplaints bounds what is kept of answers that should not be.
	maxComplaints = 20
)

// load is the clients and what they were answered.
type load struct {
	url    func() string
	tables []*table

	stop    chan struct{}
	clients sync.WaitGroup
	answers atomic.Int64

	mu         sync.Mutex
	statuses   map[int]int
	complaints []string
}

func startLoad(url func() string, tables []*table, seed uint64) *load {
	l := &load{url: url, tables: tables, stop: make(chan struct{}), statuses: map[int]int{}}
	for i := range clients {
		l.clients.Go(func() { l.client(rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	return l
}

// end stops the clients and waits for them.
func (l *load) end() {
	close(l.stop)
	l.clients.Wait()
}

func (l *load) client(rng *rand.Rand) {
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for {
		rows := l.post(client, l.compose(rng))
		select {
		case <-l.stop:
			return
		case <-time.After(time.Duration(rows)*rowPause + 2*time.Millisecond):
		}
	}
}

// body is a request: rows of one table, numbered from first.
type body struct {
	table       *table
	first, rows int
	broken      int // the one that has a fault, or -1
	contentType string
	gzip        bool
	text        string
}

// compose makes a body of a random table, size and format; one in ten has a
// record with a fault.
func (l *load) compose(rng *rand.Rand) body {
	b := body{table: l.tables[rng.IntN(len(l.tables))], rows: 1, broken: -1, gzip: rng.IntN(4) == 0}
	switch rng.IntN(10) {
	case 0, 1, 2:
		b.rows = 2 + rng.IntN(30)
	case 3:
		b.rows = 1 + rng.IntN(maxBatch)
	}
	b.first = b.table.reserve(b.rows)
	if rng.IntN(10) == 0 {
		b.broken = rng.IntN(b.rows)
	}
	format := rng.IntN(3)
	if b.rows == 1 && rng.IntN(2) == 0 {
		format = 3
	}
	var text strings.Builder
	switch format {
	case 0:
		b.contentType = "application/json"
		b.each(func(i int, r row) { fmt.Fprint(&text, [2]string{",", "["}[first(i)], r.json(i == b.broken)) })
		text.WriteString("]")
	case 1:
		b.contentType = "application/x-ndjson"
		b.each(func(i int, r row) { text.WriteString(r.json(i == b.broken) + "\n") })
	case 2:
		b.contentType = "text/csv"
		text.WriteString(csvHeader)
		b.each(func(i int, r row) { text.WriteString(r.csv(i == b.broken)) })
	case 3:
		b.contentType = "application/json"
		b.each(func(i int, r row) { text.WriteString(r.json(i == b.broken)) })
	}
	b.text = text.String()
	return b
}

func first(i int) int {
	if i == 0 {
		return 1
	}
	return 0
}

func (b body) each(do func(i int, r row)) {
	for i := range b.rows {
		do(i, b.table.row(b.first+i))
	}
}

// post sends the body, notes what became of its rows, and returns how many
// there were.
func (l *load) post(client *http.Client, b body) int {
	status, answer, err := l.send(client, b)
	l.answers.Add(1)
	l.mu.Lock()
	l.statuses[status]++
	l.mu.Unlock()
	switch {
	case err != nil || status == http.StatusServiceUnavailable:
		b.settle(unknown)
	case status == http.StatusOK:
		l.accepted(b, answer)
	case status == http.StatusNotFound && strings.Contains(answer, "table.unknown"),
		status == http.StatusBadRequest && b.rows == 1 && b.broken == 0:
		b.settle(refused)
	default:
		b.settle(unknown)
		l.complain("%d rows of %s as %s: %d %s", b.rows, b.table, b.contentType, status, answer)
	}
	return b.rows
}

func (l *load) send(client *http.Client, b body) (status int, answer string, err error) {
	content := []byte(b.text)
	if b.gzip {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, _ = w.Write(content)
		_ = w.Close()
		content = packed.Bytes()
	}
	target := l.url() + "/v1/ingest?table=" + url.QueryEscape(b.table.name)
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, target, bytes.NewReader(content))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("X-Tenant-ID", b.table.tenant)
	request.Header.Set("Content-Type", b.contentType)
	if b.gzip {
		request.Header.Set("Content-Encoding", "gzip")
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, "", err
	}
	return response.StatusCode, string(text), nil
}

// accepted notes the rows of a body that was answered 200: all but the one
// with the fault.
func (l *load) accepted(b body, text string) {
	var answer struct {
		OK        bool
		Succeeded int
		Results   []struct {
			Index int
			OK    bool
		}
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		l.complain("an answer that is no JSON: %s", text)
	}
	good := b.rows
	if b.broken >= 0 {
		good--
	}
	switch {
	case answer.OK:
		answer.Succeeded = 1
	case b.broken >= 0 && (len(answer.Results) != 1 || answer.Results[0].Index != b.broken+1 || answer.Results[0].OK):
		l.complain("record %d of %d has a fault, answered %s", b.broken+1, b.rows, text)
	}
	if answer.Succeeded != good {
		l.complain("%d of %d rows are good, answered %s", good, b.rows, text)
	}
	b.settle(answered)
	if b.broken >= 0 {
		b.table.settle(b.first+b.broken, refused)
	}
}

func (b body) settle(o outcome) {
	for i := range b.rows {
		b.table.settle(b.first+i, o)
	}
}

func (l *load) complain(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.complaints) < maxComplaints {
		l.complaints = append(l.complaints, fmt.Sprintf(format, args...))
	}
}
