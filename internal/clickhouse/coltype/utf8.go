package coltype

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// InUTF8 returns the text of a type with those bytes of names that are not UTF-8 as
// escapes, which ClickHouse does not write and reads, and Parse as well.
func InUTF8(typ string) string {
	if utf8.ValidString(typ) {
		return typ
	}
	var b strings.Builder
	for at := 0; at < len(typ); {
		r, size := utf8.DecodeRuneInString(typ[at:])
		if r == utf8.RuneError && size == 1 {
			fmt.Fprintf(&b, `\x%02X`, typ[at])
		} else {
			b.WriteString(typ[at : at+size])
		}
		at += size
	}
	return b.String()
}

// AsWritten turns what InUTF8 returned into the text that ClickHouse writes, where
// that is compared byte by byte.
func AsWritten(typ string) string {
	if !strings.Contains(typ, `\x`) {
		return typ
	}
	var b strings.Builder
	for at := 0; at < len(typ); {
		size := 1
		if typ[at] == '\\' && at+1 < len(typ) {
			size = 2
		}
		if size == 2 && typ[at+1] == 'x' && at+4 <= len(typ) {
			if code, err := strconv.ParseUint(typ[at+2:at+4], 16, 8); err == nil {
				b.WriteByte(byte(code))
				at += 4
				continue
			}
		}
		b.WriteString(typ[at : at+size])
		at += size
	}
	return b.String()
}
