package api

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/clickhouse"
	"github.com/wavehouse/wavehouse/internal/query"
)

// cursorHeader continues an answer: it is the cursor of the page behind it.
const cursorHeader = "X-Next-Cursor"

// keyMark is what stands before a row's key.
func keyMark(p *query.Page) []byte { return []byte(`,"` + p.Column() + `":"`) }

// keyed are the rows of a page without their keys.
type keyed struct {
	body []byte
	rows int64
	// cut: there is a row more, with the key next.
	cut  bool
	next string
	// last is the key of the last row, and of the run rows that end the page; they
	// begin at runAt of the body.
	last  string
	run   int64
	runAt int
}

// unkeyed takes the keys off an answer and leaves out what is over the cap. It
// writes over the body.
func unkeyed(body, mark []byte, array bool, most int64) (keyed, error) {
	k := keyed{body: body[:0]}
	rest := body
	if array {
		k.body, rest = body[:leadingArray], body[leadingArray:]
	}
	var last []byte
	for len(rest) > 0 {
		line, after, _ := bytes.Cut(rest, []byte{'\n'})
		rest = after
		if len(line) == 0 || array && line[0] == ']' {
			continue
		}
		row, key, ok := cutKey(bytes.TrimSuffix(line, []byte{','}), mark)
		if !ok {
			return k, fmt.Errorf("a row without its key: %.100q", line)
		}
		if k.rows == most {
			k.cut, k.next = true, string(key)
			break
		}
		if array && k.rows > 0 {
			k.body = append(k.body, ",\n"...)
		}
		if k.run++; !bytes.Equal(key, last) || k.rows == 0 {
			k.run, k.runAt = 1, len(k.body)
			last = append(last[:0], key...)
		}
		k.rows++
		k.body = append(append(k.body, row...), '}')
		if !array {
			k.body = append(k.body, '\n')
		}
	}
	if array {
		k.body = append(k.body, arrayEnd[k.rows == 0]...)
	}
	k.last = string(last)
	return k, nil
}

// leadingArray is how long the beginning of an array is: a bracket on a line.
const leadingArray = len("[\n")

// cutKey splits a row before its last column.
func cutKey(line, mark []byte) (row, key []byte, ok bool) {
	at := bytes.LastIndex(line, mark)
	if at < 0 || len(line) < at+len(mark)+2 {
		return nil, nil, false
	}
	return line[:at], line[at+len(mark) : len(line)-2], true
}

// page makes a page of an answer that is held, and its notes.
func (s *Server) page(ctx context.Context, at *room, q read, head []byte) ([]byte, []cache.Note, error) {
	page, array := q.rows.page, q.as.format == query.FormatJSON
	k, err := unkeyed(head, keyMark(page), array, q.rows.Rows)
	if err != nil || !k.cut || k.rows == 0 {
		return k.body, q.rows.notes(k.cut), err
	}
	var cursor string
	if page.Apart(k.last, k.next) {
		cursor = page.Cursor(k.last, k.next, k.run, k.run == k.rows)
	} else if k.body, cursor, err = s.settle(ctx, at, q, k); err != nil {
		return nil, nil, err
	}
	notes := q.rows.notes(true)
	if cursor != "" {
		notes = append(notes, cache.Note{Name: cursorHeader, Value: cursor})
	}
	return k.body, notes, nil
}

// settle ends a page whose last rows are of one key with rows behind it. Which of
// them come first is not known to other pages: they are asked for again, in an order
// that is, and put in their place. Rows that were there are neither lost nor
// answered twice, whatever is written meanwhile.
func (s *Server) settle(ctx context.Context, at *room, q read, k keyed) (body []byte, cursor string, err error) {
	page, array := q.rows.page, q.as.format == query.FormatJSON
	group, err := page.Group(k.last, k.run)
	if err != nil {
		return nil, "", err
	}
	limitTime(group.Settings, q.pool)
	beside := &room{of: at.of, tenant: at.tenant, page: true}
	defer beside.letGo()
	own, err := s.ask(ctx, q.pool, beside, clickhouse.Request{
		SQL: group.SQL, Params: group.Params, Settings: group.Settings, External: group.External, ReadOnly: true,
	})
	if own != nil {
		s.spent(at.tenant, own.cost.read)
	}
	if err != nil {
		s.spentOn(at.tenant, err)
		return nil, "", err
	}
	defer own.close()
	if own.rest != nil {
		return k.body, "", nil // there is no room to hold them
	}
	in := group.Page()
	settled, err := unkeyed(own.head, keyMark(in), array, k.run)
	switch {
	case err != nil:
		return nil, "", err
	case settled.cut:
		cursor = in.Cursor(settled.last, settled.next, settled.run, settled.run == settled.rows)
	default: // some are gone, and there are no others
		cursor = page.Cursor(k.last, "", k.run, false)
	}
	if settled.rows == 0 {
		return k.body, cursor, nil
	}
	rows := settled.body
	if array {
		rows = rows[leadingArray:]
	}
	return append(k.body[:k.runAt:k.runAt], rows...), cursor, nil
}

// keyWriter takes the keys off rows that are passed on.
type keyWriter struct {
	w    io.Writer
	mark []byte
	// tail bounds how far from the end of its line a key may begin.
	tail int
	line []byte
}

func (k *keyWriter) Write(p []byte) (int, error) {
	size := len(p)
	for {
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			break
		}
		k.line = append(k.line, p[:end]...)
		p = p[end+1:]
		if err := k.flush(); err != nil {
			return 0, err
		}
	}
	k.line = append(k.line, p...)
	if ready := len(k.line) - k.tail; ready > pieceBytes {
		if _, err := k.w.Write(k.line[:ready]); err != nil {
			return 0, err
		}
		k.line = append(k.line[:0], k.line[ready:]...)
	}
	return size, nil
}

// flush writes what is left of a line.
func (k *keyWriter) flush() error {
	bare, comma := bytes.CutSuffix(k.line, []byte{','})
	if row, _, ok := cutKey(bare, k.mark); ok {
		k.line = append(k.line[:len(row)], '}')
		if comma {
			k.line = append(k.line, ',')
		}
	}
	_, err := k.w.Write(append(k.line, '\n'))
	k.line = k.line[:0]
	return err
}
