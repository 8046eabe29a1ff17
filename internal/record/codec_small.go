package record

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strconv"
)

// boolCodec is for Bool: one byte, 0 or 1.
type boolCodec struct{ fixedCodec }

func (c *boolCodec) AppendJSON(dst, value []byte) ([]byte, error) {
	switch view(value) {
	case "true", "1", `"true"`:
		return append(dst, 1), nil
	case "false", "0", `"false"`:
		return append(dst, 0), nil
	}
	return dst, wrongKind(c.name, value)
}

// AppendText takes the names in the three ways of writing them, and 0 and 1.
func (c *boolCodec) AppendText(dst, field []byte) ([]byte, error) {
	switch view(field) {
	case "true", "1", "True", "TRUE":
		return append(dst, 1), nil
	case "false", "0", "False", "FALSE":
		return append(dst, 0), nil
	}
	return dst, mismatch(c.name, field)
}

func (c *boolCodec) RenderJSON(dst, encoded []byte, _ RenderOptions) ([]byte, int, error) {
	if len(encoded) < 1 {
		return dst, 0, errShort
	}
	return strconv.AppendBool(dst, encoded[0] != 0), 1, nil
}

func (c *boolCodec) Compare(a, b []byte) (int, bool) {
	if !c.pair(a, b) {
		return 0, false
	}
	return order(a[0], b[0]), true
}

// uuidCodec is for UUID: two little-endian halves.
type uuidCodec struct{ fixedCodec }

func (c *uuidCodec) AppendJSON(dst, value []byte) ([]byte, error) {
	text, fault := stringText(c.name, value)
	if fault != nil {
		return dst, fault
	}
	return c.parse(dst, text, value)
}

// AppendText reads a field as AppendJSON reads a string.
func (c *uuidCodec) AppendText(dst, field []byte) ([]byte, error) { return c.parse(dst, field, field) }

// parse judges text; shown is what messages repeat.
func (c *uuidCodec) parse(dst, text, shown []byte) ([]byte, error) {
	var id [16]byte
	if !parseUUID(&id, text) {
		return dst, mismatch(c.name, shown)
	}
	return append(dst,
		id[7], id[6], id[5], id[4], id[3], id[2], id[1], id[0],
		id[15], id[14], id[13], id[12], id[11], id[10], id[9], id[8]), nil
}

// parseUUID reads 32 hexadecimal digits in any case, with all dashes or none.
func parseUUID(id *[16]byte, text []byte) bool {
	dashed := len(text) == 36
	if !dashed && len(text) != 32 {
		return false
	}
	at := 0
	var bad byte
	for i := range id {
		if dashed && (i == 4 || i == 6 || i == 8 || i == 10) {
			bad |= text[at] ^ '-'
			at++
		}
		high, low := hexTable[text[at]]-1, hexTable[text[at+1]]-1
		bad |= (high | low) & 0xF0
		id[i] = high<<4 | low&0x0F
		at += 2
	}
	return bad == 0
}

// hexTable is one more than a hexadecimal digit's value, 0 for other bytes.
var hexTable = [256]byte{
	'0': 1, '1': 2, '2': 3, '3': 4, '4': 5, '5': 6, '6': 7, '7': 8, '8': 9, '9': 10,
	'a': 11, 'b': 12, 'c': 13, 'd': 14, 'e': 15, 'f': 16,
	'A': 11, 'B': 12, 'C': 13, 'D': 14, 'E': 15, 'F': 16,
}

func (c *uuidCodec) RenderJSON(dst, encoded []byte, _ RenderOptions) ([]byte, int, error) {
	if len(encoded) < 16 {
		return dst, 0, errShort
	}
	var id [16]byte
	binary.BigEndian.PutUint64(id[:], binary.LittleEndian.Uint64(encoded))
	binary.BigEndian.PutUint64(id[8:], binary.LittleEndian.Uint64(encoded[8:]))
	dst = append(dst, '"')
	from := 0
	for _, to := range [...]int{4, 6, 8, 10} {
		dst = append(hex.AppendEncode(dst, id[from:to]), '-')
		from = to
	}
	return append(hex.AppendEncode(dst, id[from:]), '"'), 16, nil
}

// Compare orders by the second half first, as ClickHouse does.
func (c *uuidCodec) Compare(a, b []byte) (int, bool) {
	if !c.pair(a, b) {
		return 0, false
	}
	return compareWide(a[:16], b[:16], false), true
}

// ipv4Codec is for IPv4: a little-endian integer.
type ipv4Codec struct{ fixedCodec }

func (c *ipv4Codec) AppendJSON(dst, value []byte) ([]byte, error) {
	text, fault := stringText(c.name, value)
	if fault != nil {
		return dst, fault
	}
	return c.parse(dst, text, value)
}

// AppendText reads a field as AppendJSON reads a string.
func (c *ipv4Codec) AppendText(dst, field []byte) ([]byte, error) { return c.parse(dst, field, field) }

// parse judges text; shown is what messages repeat.
func (c *ipv4Codec) parse(dst, text, shown []byte) ([]byte, error) {
	ip, err := netip.ParseAddr(view(text))
	if err != nil || !ip.Is4() {
		return dst, mismatch(c.name, shown)
	}
	b := ip.As4()
	return append(dst, b[3], b[2], b[1], b[0]), nil
}

func (c *ipv4Codec) RenderJSON(dst, encoded []byte, _ RenderOptions) ([]byte, int, error) {
	if len(encoded) < 4 {
		return dst, 0, errShort
	}
	dst = appendIPv4(append(dst, '"'), [4]byte{encoded[3], encoded[2], encoded[1], encoded[0]})
	return append(dst, '"'), 4, nil
}

func appendIPv4(dst []byte, b [4]byte) []byte { return netip.AddrFrom4(b).AppendTo(dst) }

func (c *ipv4Codec) Compare(a, b []byte) (int, bool) {
	if !c.pair(a, b) {
		return 0, false
	}
	return order(little(a, 4), little(b, 4)), true
}

// ipv6Codec is for IPv6: sixteen bytes in network order. An IPv4 address is
// stored as its IPv4-mapped one.
type ipv6Codec struct{ fixedCodec }

func (c *ipv6Codec) AppendJSON(dst, value []byte) ([]byte, error) {
	text, fault := stringText(c.name, value)
	if fault != nil {
		return dst, fault
	}
	return c.parse(dst, text, value)
}

// AppendText reads a field as AppendJSON reads a string.
func (c *ipv6Codec) AppendText(dst, field []byte) ([]byte, error) { return c.parse(dst, field, field) }

// parse judges text; shown is what messages repeat.
func (c *ipv6Codec) parse(dst, text, shown []byte) ([]byte, error) {
	ip, err := netip.ParseAddr(view(text))
	if err != nil || ip.Zone() != "" {
		return dst, mismatch(c.name, shown)
	}
	b := ip.As16()
	return append(dst, b[:]...), nil
}

func (c *ipv6Codec) RenderJSON(dst, encoded []byte, _ RenderOptions) ([]byte, int, error) {
	if len(encoded) < 16 {
		return dst, 0, errShort
	}
	dst = appendIPv6(append(dst, '"'), [16]byte(encoded))
	return append(dst, '"'), 16, nil
}

// appendIPv6 writes an address as ClickHouse does: like RFC 5952, but with the
// last four bytes in dots whenever the longest run of zeros is the twelve
// bytes in front of them.
func appendIPv6(dst []byte, b [16]byte) []byte {
	compatible := bytes.Equal(b[:12], make([]byte, 12)) && (b[12] != 0 || b[13] != 0)
	if !compatible {
		return netip.AddrFrom16(b).AppendTo(dst)
	}
	return appendIPv4(append(dst, "::"...), [4]byte(b[12:]))
}

func (c *ipv6Codec) Compare(a, b []byte) (int, bool) {
	if !c.pair(a, b) {
		return 0, false
	}
	return bytes.Compare(a[:16], b[:16]), true
}
