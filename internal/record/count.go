package record

import "bytes"

// Count returns how many records a body holds, found by its quotes and brackets
// alone: whether they are any good is the Decoder's to say. A body that a Decoder
// would refuse as a whole may count as none.
func Count(f InputFormat, body []byte) int {
	switch {
	case f.csv():
		return max(0, countCSV(body)-headerLines(f))
	case f.delimited():
		return max(0, countTSV(body)-headerLines(f))
	case f == NDJSON:
		return countObjects(body)
	}
	return countElements(body)
}

// headerLines is 1 for a format whose first line names the columns.
func headerLines(f InputFormat) int {
	if f == CSV || f == TSV {
		return 1
	}
	return 0
}

// countObjects counts the lines that are not blank.
func countObjects(body []byte) int {
	n := 0
	for line := range bytes.Lines(body) {
		if skipSpace(line, 0) < len(line) {
			n++
		}
	}
	return n
}

// countTSV counts the lines that are not empty, although an empty one may be the
// empty text of the only column.
func countTSV(body []byte) int {
	n := 0
	for line := range bytes.Lines(body) {
		if lineEnd(line, 0) == 0 {
			n++
		}
	}
	return n
}

// countCSV counts the lines that are not blank; a line break within quotes ends
// none.
func countCSV(body []byte) int {
	if openQuote(body, ',') >= 0 {
		return 0
	}
	n, fields := 0, 0
	for at := 0; at < len(body); {
		if end := lineEnd(body, at); fields == 0 && end > at {
			at = end
			continue
		}
		_, end := csvField(body, at, ',')
		if fields++; end >= len(body) || body[end] == '\n' {
			n, fields = n+1, 0
		}
		at = end + 1
	}
	if fields > 0 {
		n++ // the last field is an empty one
	}
	return n
}

// countElements counts the elements of an array; a single object is one.
func countElements(body []byte) int {
	at := skipSpace(body, 0)
	if at == len(body) || body[at] != '{' && body[at] != '[' || compositeStop(body, at) < 0 {
		return 0
	}
	if body[at] == '{' {
		return 1
	}
	if at = skipSpace(body, at+1); body[at] == ']' {
		return 0
	}
	for n := 1; ; n++ {
		end := elementStop(body, at)
		if body[end] == ']' {
			return n
		}
		at = skipSpace(body, end+1)
	}
}
