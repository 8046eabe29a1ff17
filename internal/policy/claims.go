package policy

import (
	"encoding/json"
	"strconv"

	"github.com/wavehouse/wavehouse/internal/record"
)

// scalarText returns the text of a claim that is one value. An empty string
// says nothing about its bearer, and is no value: it must not meet the columns
// that were left empty.
func scalarText(claim any) (text string, ok bool) {
	switch v := claim.(type) {
	case string:
		return v, v != ""
	case json.Number:
		return v.String(), json.Valid([]byte(v))
	case bool:
		return strconv.FormatBool(v), true
	case float64:
		text := strconv.FormatFloat(v, 'f', -1, 64)
		return text, json.Valid([]byte(text))
	}
	return "", false
}

// scalarJSON returns a claim that is one value as JSON, of the claim's type.
func scalarJSON(claim any) (json.RawMessage, bool) {
	text, ok := scalarText(claim)
	if !ok {
		return nil, false
	}
	if _, is := claim.(string); is {
		return record.AppendJSONString(nil, text), true
	}
	return json.RawMessage(text), true
}

// scalarsJSON returns a claim that is one value or a list of them. A list with
// anything else in it, and an empty one, is none.
func scalarsJSON(claim any) ([]json.RawMessage, bool) {
	list, is := claim.([]any)
	if !is {
		list = []any{claim}
	}
	var values []json.RawMessage
	for _, item := range list {
		value, ok := scalarJSON(item)
		if !ok {
			return nil, false
		}
		values = append(values, value)
	}
	return values, len(values) > 0
}
