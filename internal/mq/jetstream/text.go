package jetstream

import "strings"

// safeValue reports whether s comes back from a header as it was written: a
// header line ends at a line break, and readers trim spaces around a value.
func safeValue(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return false
		}
	}
	return s == strings.Trim(s, " ")
}

// escapeText makes any text a safe header value: control characters, percent
// signs and spaces at either end become %XX.
func escapeText(s string) string {
	if safeValue(s) && strings.IndexByte(s, '%') < 0 {
		return s
	}
	out := make([]byte, 0, len(s)+16)
	for i := range len(s) {
		c := s[i]
		edge := c == ' ' && (i == 0 || i == len(s)-1)
		out = appendEscaped(out, c, c >= ' ' && c != 0x7f && c != '%' && !edge)
	}
	return string(out)
}

// unescapeText reads escapeText; text that it did not write stays as it is.
func unescapeText(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	if out, ok := unescape(s); ok {
		return out
	}
	return s
}
