// Package excerpt cuts texts of clients and servers to a length fit for a
// message.
package excerpt

import (
	"strconv"
	"unicode/utf8"
)

// Longest is how much of a text a message repeats, in bytes.
const Longest = 64

// Of returns the text, at most Longest bytes of it.
func Of[T ~string | ~[]byte](text T) string { return Cut(text, Longest) }

// Quoted is Of in quotes, with what does not print escaped.
func Quoted(text string) string {
	if len(text) <= Longest {
		return strconv.Quote(text)
	}
	return strconv.Quote(text[:boundary(text, Longest)]) + "…"
}

// Cut returns the text, at most so many bytes of it and an ellipsis. No rune is
// cut in two.
func Cut[T ~string | ~[]byte](text T, most int) string {
	if len(text) <= most {
		return string(text)
	}
	return string(text[:boundary(text, most)]) + "…"
}

// boundary is where the rune at begins.
func boundary[T ~string | ~[]byte](text T, at int) int {
	for at > 0 && !utf8.RuneStart(text[at]) {
		at--
	}
	return at
}
