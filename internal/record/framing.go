package record

import (
	"bytes"
	"fmt"
)

// open finds out whether the body as a whole is at fault, and where its first
// record is. For JSON that walks all of it by its quotes and brackets, so that
// nothing of a body that was cut off is ever taken.
func (d *Decoder) open() *BodyError {
	if d.format.delimited() {
		return d.openDelimited()
	}
	d.at = skipSpace(d.body, 0)
	if d.at == len(d.body) {
		return &BodyError{Code: CodeBodyEmpty, Message: "the body is empty"}
	}
	if d.format == NDJSON {
		return nil
	}
	first := d.body[d.at]
	if first != '{' && first != '[' {
		return malformedBody("the body is neither an object nor an array of objects")
	}
	end := compositeStop(d.body, d.at)
	if end < 0 {
		return malformedBody("the body's brackets or quotes do not close")
	}
	if rest := skipSpace(d.body, end); rest < len(d.body) {
		return malformedBody("the body goes on after its end, at byte %d", rest+1)
	}
	if d.single = first == '{'; d.single {
		return nil
	}
	d.body = d.body[:end]
	if d.at = skipSpace(d.body, d.at+1); d.at == end-1 {
		d.done = true
	}
	return nil
}

func malformedBody(format string, args ...any) *BodyError {
	return &BodyError{Code: CodeBodyMalformed, Message: fmt.Sprintf(format, args...)}
}

// nextLine reads the next line that is not blank.
func (d *Decoder) nextLine() bool {
	for d.at < len(d.body) {
		end := len(d.body)
		if n := bytes.IndexByte(d.body[d.at:], '\n'); n >= 0 {
			end = d.at + n
		}
		start := skipSpace(d.body[:end], d.at)
		d.at = end + 1
		if start < end {
			return d.finish(d.readLine(d.body[:end], start))
		}
	}
	d.done = true
	return false
}

// readLine reads the object that starts at b[at] and must end b.
func (d *Decoder) readLine(b []byte, at int) *Error {
	if b[at] != '{' {
		return malformed("a record is one JSON object, and the line starts with something else")
	}
	end, fault := d.scanObject(b, at)
	if fault != fine {
		return badSyntax(fault, end-at)
	}
	if end < len(b) && skipSpace(b, end) < len(b) {
		return malformed("extra data follows the object on its line")
	}
	return nil
}

// badSyntax says what is wrong with a record's JSON and where.
func badSyntax(fault syntax, offset int) *Error {
	return malformed("%s, at byte %d of the record", messages[fault], offset+1)
}

// nextElement reads the array's next element, or the single object.
func (d *Decoder) nextElement() bool {
	b, start := d.body, d.at
	if d.single {
		d.done = true
		end, fault := d.scanObject(b, start)
		if fault != fine {
			return d.finish(badSyntax(fault, end-start))
		}
		return d.finish(nil)
	}
	end, fault := d.readElement(b, start)
	if d.at = skipSpace(b, end+1); b[end] == ']' {
		d.done = true
	}
	return d.finish(fault)
}

// readElement reads the element at b[start] and returns the offset of the comma
// or bracket after it. An element that is no object is skipped by its quotes
// and brackets.
func (d *Decoder) readElement(b []byte, start int) (end int, fault *Error) {
	if b[start] != '{' {
		return elementStop(b, start), malformed("the element is not an object")
	}
	end, bad := d.scanObject(b, start)
	if bad != fine {
		return elementStop(b, start), badSyntax(bad, end-start)
	}
	if end = skipSpace(b, end); b[end] != ',' && b[end] != ']' {
		return elementStop(b, start), malformed("extra data follows the object")
	}
	return end, nil
}

// elementStop returns the offset of the comma or bracket that ends an element
// of an array whose brackets and quotes are known to close.
func elementStop(b []byte, at int) int {
	for {
		switch b[at] {
		case ',', ']':
			return at
		case '"':
			at = stringStop(b, at)
		case '{', '[':
			at = compositeStop(b, at)
		default:
			at++
		}
	}
}
