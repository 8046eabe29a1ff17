package lineage

import (
	"context"
	"errors"
	"fmt"

	"github.com/wavehouse/wavehouse/internal/clickhouse"
)

// markQuery tells whether any definition is another than before, without reading
// them: how many there are, a sum over what they are known by, how many changed
// so lately that the next change may have the same time, and how many have
// neither an id nor a time.
const markQuery = `SELECT toString(count()), toString(sum(h)), toString(countIf(at > now() - 2)), toString(countIf(bare)) FROM (
SELECT metadata_modification_time AS at, uuid = toUUID('00000000-0000-0000-0000-000000000000') OR at < '1980-01-01 00:00:00' AS bare,
cityHash64(database, name, engine, uuid, at) AS h FROM system.tables ` + others + `)`

// textMarkQuery is the same of what bare definitions say.
const textMarkQuery = `SELECT toString(sum(cityHash64(database, name, engine_full, create_table_query))) FROM system.tables ` + others

// readMark returns what the definitions are known by; "" when they changed so
// lately that a mark would not tell.
func readMark(ctx context.Context, pool *clickhouse.Pool) (string, error) {
	var count, sum, young, bare, text string
	err := pool.EachRow(ctx, markQuery, 4, func(row []string) error {
		count, sum, young, bare = row[0], row[1], row[2], row[3]
		return nil
	})
	if err == nil && bare != "0" {
		err = pool.EachRow(ctx, textMarkQuery, 1, func(row []string) error { text = row[0]; return nil })
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("look whether views changed: %w", err)
	case young != "0":
		return "", nil
	}
	return count + " " + sum + " " + text, nil
}

// confirm reports whether the views are still those of the graph, by a look that
// begins after the call. What was answered in between is then about them.
func (l *Lineage) confirm(ctx context.Context, pool *clickhouse.Pool, g *graph) bool {
	since := l.now()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	p := l.viewpoint(pool)
	if p.take(ctx) != nil {
		return false
	}
	defer p.give()
	if p.value == g && p.asked.After(since) {
		return true // somebody looked while this one waited
	}
	asked := l.now()
	mark, err := readMark(ctx, pool)
	switch {
	case err != nil && !errors.Is(err, context.Canceled):
		l.logger.DebugContext(ctx, "cannot tell whether views changed: an answer is cached for a short time", "error", err)
		return false
	case err != nil:
		return false
	case mark == "", p.value == nil || p.value.mark != mark:
		p.value, p.before = nil, false // to be read anew
		return false
	case p.value != g && g.mark != mark:
		return false
	}
	p.asked = asked
	return true
}
