package cache

import (
	"encoding/binary"
	"errors"
)

const (
	// valueVersion begins an encoded value, so that another version of the
	// program can tell whether it can read it. The fields follow, each behind its
	// length: size, type, tag, the three bodies, the notes, and a field for each
	// table. Of the notes each name and each value stands behind its length.
	valueVersion = 2
	// maxDecoded bounds the plain body that an encoded value may claim to have,
	// in bytes.
	maxDecoded = 1 << 30
)

// errValue: the bytes are no value that this version can read.
var errValue = errors.New("not a cached result that this version can read")

// MarshalBinary encodes the value for a store elsewhere.
func (v *Value) MarshalBinary() ([]byte, error) {
	fields := [][]byte{
		binary.AppendUvarint(nil, uint64(v.Size)), []byte(v.ContentType), []byte(v.ETag), v.plain, v.gzip, v.zstd, nil,
	}
	for _, note := range v.Notes {
		fields[6] = appendField(appendField(fields[6], []byte(note.Name)), []byte(note.Value))
	}
	for _, table := range v.Tables {
		fields = append(fields, []byte(table))
	}
	out := make([]byte, 1, 64+v.Weight())
	out[0] = valueVersion
	for _, field := range fields {
		out = appendField(out, field)
	}
	return out, nil
}

func appendField(dst, field []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(field))), field...)
}

// readFields takes apart what appendField made, and keeps the data.
func readFields(data []byte) (fields [][]byte, err error) {
	for rest := data; len(rest) > 0; {
		length, n := binary.Uvarint(rest)
		if n <= 0 || length > uint64(len(rest)-n) {
			return nil, errValue
		}
		field := rest[n : n+int(length) : n+int(length)]
		if length == 0 {
			field = nil
		}
		fields, rest = append(fields, field), rest[n+len(field):]
	}
	return fields, nil
}

// UnmarshalBinary reads what MarshalBinary made, and keeps the data.
func (v *Value) UnmarshalBinary(data []byte) error {
	if len(data) == 0 || data[0] != valueVersion {
		return errValue
	}
	fields, err := readFields(data[1:])
	if err != nil {
		return err
	}
	if len(fields) < 7 {
		return errValue
	}
	size, _ := binary.Uvarint(fields[0])
	read := Value{
		Size: int(size), ContentType: string(fields[1]), ETag: string(fields[2]),
		plain: fields[3], gzip: fields[4], zstd: fields[5],
	}
	whole := len(read.plain) == read.Size || read.plain == nil && read.zstd != nil
	if size > maxDecoded || !whole {
		return errValue
	}
	notes, err := readFields(fields[6])
	if err != nil || len(notes)%2 != 0 {
		return errValue
	}
	for i := 0; i < len(notes); i += 2 {
		read.Notes = append(read.Notes, Note{string(notes[i]), string(notes[i+1])})
	}
	for _, table := range fields[7:] {
		read.Tables = append(read.Tables, string(table))
	}
	*v = read
	return nil
}
