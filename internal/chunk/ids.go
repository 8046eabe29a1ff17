package chunk

import (
	"encoding/binary"
	"errors"
)

var errIDs = errors.New("the ids do not pair with the rows")

// AppendID appends the id of a row to those of the rows before it, as they stand
// in front of the rows of a chunk whose ids are still to be claimed.
func AppendID(dst []byte, id string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(id))), id...)
}

// parseIDs reads an id for each row.
func parseIDs(b []byte, rows int) ([]string, error) {
	ids := make([]string, 0, min(rows, len(b)))
	for len(b) > 0 {
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return nil, errIDs
		}
		ids = append(ids, string(b[n:n+int(size)]))
		b = b[n+int(size):]
	}
	if len(ids) != rows {
		return nil, errIDs
	}
	return ids, nil
}
