package stream

import (
	"fmt"
	"strconv"
	"time"

	"github.com/wavehouse/wavehouse/internal/record"
)

// reconnectMillis is how long a client waits before it reconnects.
const reconnectMillis = 2000

const receivedFormat = "2006-01-02T15:04:05.000000Z"

// appendOpening appends what opens a stream. The id, in a block without data,
// raises no event but is what a client that loses the connection before the
// first row comes back with, so that it misses nothing. nil leaves it out.
func appendOpening(dst, id []byte) []byte {
	dst = append(dst, ": connected\nretry: "...)
	dst = strconv.AppendInt(dst, reconnectMillis, 10)
	return appendIDBlock(append(dst, '\n'), id)
}

// appendKeepalive appends a comment, and the reader's position when it moved
// without a row since the client last saw an id (nil otherwise).
func appendKeepalive(dst []byte, id []byte) []byte {
	return appendIDBlock(append(dst, ": keepalive\n"...), id)
}

// appendIDBlock ends a block, with an id unless it is nil.
func appendIDBlock(dst, id []byte) []byte {
	if id == nil {
		return append(dst, '\n')
	}
	dst = append(dst, "id: "...)
	dst = append(dst, id...)
	return append(dst, "\n\n"...)
}

// appendGap appends a gap event. Its id is the gap's end, so that a client
// that was told is not told again.
func appendGap(dst []byte, from, to, reason string) []byte {
	return fmt.Appendf(dst, "event: gap\nid: %s\ndata: {\"from\":%q,\"to\":%q,\"reason\":%q}\n\n", to, from, to, reason)
}

// appendEnd appends an end event, and when to come back if that is not the
// usual wait.
func appendEnd(dst []byte, reason string, retry time.Duration) []byte {
	if retry > 0 {
		dst = fmt.Appendf(dst, "retry: %d\n", retry.Milliseconds())
	}
	return fmt.Appendf(dst, "event: end\ndata: {\"reason\":%q}\n\n", reason)
}

// rowFrame holds the parts of a row event that rows of a chunk share.
type rowFrame struct {
	// head is between the id and the row.
	head []byte
}

// newRowFrame makes the head of rows. asSent are the columns whose values need not
// be what a query prints.
func newRowFrame(table string, received time.Time, asSent []string) rowFrame {
	head := append([]byte(nil), "\ndata: {\"table\":"...)
	head = record.AppendJSONString(head, table)
	head = append(head, ",\"received_at\":\""...)
	head = received.UTC().AppendFormat(head, receivedFormat)
	head = append(head, '"')
	for i, name := range asSent {
		head = append(head, ',')
		if i == 0 {
			head = append(head, `"as_sent":[`...)
		}
		head = record.AppendJSONString(head, name)
	}
	if len(asSent) > 0 {
		head = append(head, ']')
	}
	return rowFrame{head: append(head, ",\"row\":"...)}
}
