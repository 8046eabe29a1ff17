package record

import (
	"bytes"
	"strconv"

	"github.com/wavehouse/wavehouse/internal/excerpt"
)

// judge says what of a value that arrives ClickHouse would refuse or change, and
// appends it as ClickHouse is to read it. An error is an *Error.
type judge interface {
	append(dst, value []byte) ([]byte, error)
}

// document judges values for a JSON column: objects, whose typed paths are
// judged by their codecs.
type document struct {
	name  string
	typed *typedPath
}

func (j *document) append(dst, value []byte) ([]byte, error) {
	if value[0] != '{' {
		return dst, mismatchf("%s is not an object, and %s takes nothing else", excerpt.Of(value), j.name)
	}
	return j.object(dst, value, &docPaths{}, root, j.typed)
}

// object appends an object that stands at a step of a document.
func (j *document) object(dst, value []byte, paths *docPaths, at int32, typed *typedPath) ([]byte, error) {
	out, walk := append(dst, '{'), elementsOf(value)
	for {
		key, member, ok := walk.nextMember()
		if !ok {
			return append(out, '}'), nil
		}
		if len(out) > len(dst)+1 {
			out = append(out, ',')
		}
		out = append(append(out, key...), ':')
		name := unquote(key)
		below, free := typed.below(name)
		step, ok := paths.enter(at, name)
		var err error
		if !free || !ok {
			err = clash()
		} else {
			out, err = j.member(out, member, paths, step, below)
		}
		if err != nil {
			return dst, within(err, "path %s", excerpt.Of(key))
		}
	}
}

// clash is of two paths of which one is the other, or leads to it: ClickHouse
// refuses them, or prints a key twice.
func clash() *Error {
	return &Error{Code: CodeDuplicateColumn, Message: "there is another value at this path, above it or below it"}
}

// member appends the value at a step.
func (j *document) member(dst, value []byte, paths *docPaths, step int32, typed *typedPath) ([]byte, error) {
	switch {
	case typed != nil && typed.codec != nil:
		if !paths.put(step) {
			return dst, clash()
		}
		return appendRendered(typed.codec, dst, value)
	case value[0] == '{':
		return j.object(dst, value, paths, step, typed)
	case typed != nil && !isNull(value):
		return dst, mismatchf("%s is not an object, and %s declares paths below it", excerpt.Of(value), j.name)
	case !paths.put(step):
		return dst, clash()
	}
	var numbers numbers
	return j.free(dst, value, &numbers)
}

// free appends a value whose type ClickHouse finds itself.
func (j *document) free(dst, value []byte, numbers *numbers) ([]byte, error) {
	switch c := value[0]; {
	case c == '{':
		// An object in an array is a document of its own.
		return j.object(dst, value, &docPaths{}, root, nil)
	case c == '[':
		return j.array(dst, value, numbers)
	case c == '-' || c-'0' <= 9:
		if fault := numbers.judge(value); fault != nil {
			return dst, fault
		}
	}
	return append(dst, value...), nil
}

// array appends an array's elements.
func (j *document) array(dst, value []byte, numbers *numbers) ([]byte, error) {
	out, walk := append(dst, '['), elementsOf(value)
	for count := 1; ; count++ {
		elem, ok := walk.next()
		if !ok {
			break
		}
		if count > 1 {
			out = append(out, ',')
		}
		var err error
		if out, err = j.free(out, elem, numbers); err != nil {
			return dst, within(err, "element %d", count)
		}
	}
	if numbers.fraction && numbers.long != nil {
		return dst, outOfRangef("%s stands in an array with fractions, whose numbers ClickHouse rounds to 53 bits", excerpt.Of(numbers.long))
	}
	return append(out, ']'), nil
}

// numbers are those of an array and of the arrays in it, which ClickHouse gives
// one type.
type numbers struct {
	// fraction: one of them is no integer.
	fraction bool
	// long is an integer that a Float64 does not hold.
	long []byte
}

// exact is where a Float64 no longer holds every integer.
const exact = 1 << 53

// judge refuses what is neither an Int64, a UInt64 nor a Float64.
func (n *numbers) judge(value []byte) *Error {
	if bytes.ContainsAny(value, ".eE") {
		n.fraction = true
		if _, err := strconv.ParseFloat(view(value), 64); err != nil {
			return outOfRange("Float64", value)
		}
		return nil
	}
	magnitude, negative, result := parseUint64(value)
	switch {
	case result != fits:
		return outOfRangef("%s is out of the range of UInt64, and is kept in a string only", excerpt.Of(value))
	case negative && magnitude > 1<<63:
		return outOfRangef("%s is out of the range of Int64, and is kept in a string only", excerpt.Of(value))
	case magnitude > exact && uint64(float64(magnitude)) != magnitude:
		n.long = value
	}
	return nil
}

// dynamic judges values for a Dynamic. Inner ones stand in another type: what is
// left out of a column is NULL already, or its default, which ClickHouse would
// make of a null too.
type dynamic struct {
	name  string
	inner bool
}

func (j *dynamic) append(dst, value []byte) ([]byte, error) {
	var numbers numbers
	return j.value(dst, value, &numbers)
}

func (j *dynamic) value(dst, value []byte, numbers *numbers) ([]byte, error) {
	switch c := value[0]; {
	case c == 'n' && !j.inner:
		return dst, nullNotAllowed(j.name)
	case c == '[' || c == '{':
		return (&document{name: j.name}).free(dst, value, numbers)
	case c == '-' || c-'0' <= 9:
		if fault := numbers.judge(value); fault != nil {
			return dst, fault
		}
	}
	return append(dst, value...), nil
}

// composite judges values for a type with a JSON or a Dynamic in it, whose other
// parts have codecs.
type composite struct{ codec Codec }

func (j *composite) append(dst, value []byte) ([]byte, error) {
	return appendRendered(j.codec, dst, value)
}

// appendRendered judges a value and appends it as ClickHouse prints it.
func appendRendered(codec Codec, dst, value []byte) ([]byte, error) {
	encoded, err := codec.AppendJSON(dst, value)
	if err != nil {
		return dst, err
	}
	start, end := len(dst), len(encoded)
	// What is rendered stands behind what it is made of, and then in its place.
	out, _, err := codec.RenderJSON(encoded, encoded[start:], lineOptions())
	if err != nil {
		return dst, malformed("%s", err)
	}
	return out[:start+copy(out[start:], out[end:])], nil
}
