package dev

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/wavehouse/wavehouse/internal/lifetime"
)

const (
	demoTable = "flights"
	// demoBody is how many rows a request of the loader carries.
	demoBody = 1000
	// visibleTimeout bounds the wait for the demo's rows to be readable.
	visibleTimeout = 5 * time.Second
)

const createDemo = `CREATE TABLE IF NOT EXISTS ` + demoTable + ` (
  flight_id String,
  departed_at DateTime('UTC'),
  origin LowCardinality(String),
  destination LowCardinality(String),
  delay Int16 COMMENT 'minutes',
  distance UInt16 COMMENT 'miles',
  received_at DateTime64(3, 'UTC') DEFAULT now64(3)
) ENGINE = MergeTree ORDER BY (origin, departed_at)
SETTINGS non_replicated_deduplication_window = 1000`

// loadDemo posts the demo's rows through the server, like any client, and
// returns the table's name; "" when there is nothing to load from.
func loadDemo(ctx context.Context, o Options, c *clickhouse, say *progress) (string, error) {
	file := o.DemoData
	if file == "" {
		file = findDemo()
	}
	if file == "" {
		say.line("no demo data found: `make run` fetches it, or name a file with --demo-data")
		return "", nil
	}
	if _, err := c.query(ctx, createDemo); err != nil {
		return "", fmt.Errorf("create the table %s: %w", demoTable, err)
	}
	loader := &demoLoader{
		client: &http.Client{Timeout: 30 * time.Second}, say: say,
		url:  "http://" + net.JoinHostPort(loopback, strconv.Itoa(o.Port)) + "/v1/ingest?table=" + demoTable,
		mark: filepath.Join(o.Dir, "demo.loaded"),
	}
	before, err := loader.loaded()
	if err == nil {
		err = loader.load(ctx, file)
	}
	if err != nil {
		return demoTable, err
	}
	return demoTable, awaitDemo(ctx, c, loader, before)
}

// awaitDemo waits until what was posted can be read, so that the first query
// has something to show. It gives up quietly: the rows are in the queue.
func awaitDemo(ctx context.Context, c *clickhouse, loader *demoLoader, before int) error {
	posted, err := loader.loaded()
	if err != nil || posted == before {
		return err
	}
	for deadline := time.Now().Add(visibleTimeout); time.Now().Before(deadline) && ctx.Err() == nil; {
		answer, err := c.query(ctx, "SELECT count() FROM "+demoTable)
		if n, convErr := strconv.Atoi(answer); err == nil && convErr == nil && n >= posted {
			return nil
		}
		loader.say.update("waiting for ClickHouse to have the flights…")
		time.Sleep(50 * time.Millisecond)
	}
	return nil
}

// findDemo looks for the fetched file above the working directory and the
// binary.
func findDemo() string {
	var starts []string
	if dir, err := os.Getwd(); err == nil {
		starts = append(starts, dir)
	}
	if self, err := os.Executable(); err == nil {
		starts = append(starts, filepath.Dir(self))
	}
	for _, dir := range starts {
		for ; ; dir = filepath.Dir(dir) {
			file := filepath.Join(dir, ".cache", "demo", demoTable+".ndjson")
			if _, err := os.Stat(file); err == nil {
				return file
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return ""
}

// demoLoader posts a file of rows. How many are durable is kept in a file, so
// that a load that was stopped goes on where it was.
type demoLoader struct {
	client *http.Client
	say    *progress
	url    string
	mark   string
}

func (l *demoLoader) load(ctx context.Context, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	lines := bytes.Split(bytes.TrimSpace(data), []byte("\n"))
	done, err := l.loaded()
	if err != nil || done >= len(lines) {
		return err
	}
	for done < len(lines) {
		n := min(demoBody, len(lines)-done)
		if err := l.post(ctx, bytes.Join(lines[done:done+n], []byte("\n"))); err != nil {
			return err
		}
		done += n
		if err := replaceFile(l.mark, []byte(strconv.Itoa(done)+"\n"), 0o640); err != nil {
			return fmt.Errorf("note what is loaded: %w", err)
		}
		l.say.update("posting demo data: %d of %d flights", done, len(lines))
	}
	l.say.line("posted %d flights through the server's API", len(lines))
	return nil
}

func (l *demoLoader) loaded() (int, error) {
	data, err := os.ReadFile(l.mark)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	done, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", l.mark, err)
	}
	return done, nil
}

// post sends rows, waiting for the server to know the table.
func (l *demoLoader) post(ctx context.Context, rows []byte) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		answer, retry, err := l.try(ctx, rows)
		if err == nil || !retry {
			return err
		}
		l.say.update("waiting for the server: %s", answer)
		if !lifetime.Pause(ctx, 100*time.Millisecond) {
			return fmt.Errorf("%w; last answer: %s", ctx.Err(), answer)
		}
	}
}

func (l *demoLoader) try(ctx context.Context, rows []byte) (answer string, retry bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url, bytes.NewReader(rows))
	if err != nil {
		return "", false, err
	}
	request.Header.Set("Content-Type", "application/x-ndjson")
	response, err := l.client.Do(request)
	if err != nil {
		return err.Error(), true, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(bufio.NewReader(io.LimitReader(response.Body, 1<<20)))
	if err != nil {
		return "", false, err
	}
	var counts struct {
		Failed int    `json:"failed"`
		Error  string `json:"error"`
	}
	if err := json.Unmarshal(body, &counts); err != nil {
		return "", false, fmt.Errorf("the server answered %s: %s", response.Status, body)
	}
	switch {
	case response.StatusCode == http.StatusServiceUnavailable, response.StatusCode == http.StatusNotFound:
		return counts.Error, true, errors.New(counts.Error)
	case response.StatusCode != http.StatusOK || counts.Failed > 0:
		return "", false, fmt.Errorf("the server answered %s: %s", response.Status, body)
	}
	return "", false, nil
}
