package record

import (
	"fmt"

	"github.com/wavehouse/wavehouse/internal/clickhouse/coltype"
)

// MergeEventData is the DecodeOptions.EventData that makes the members of an
// event's data fields of the record.
const MergeEventData = "merge"

// eventData is the attribute of a CloudEvent that holds what it is about.
const eventData = "data"

// isEnvelope tells the attributes of a CloudEvent that are about the envelope
// itself: they need no column.
func (d *Decoder) isEnvelope(name []byte) bool {
	return d.options.EventData != "" && !d.within && (string(name) == "specversion" || string(name) == "datacontenttype")
}

// takeEvent takes the data of a CloudEvent: into its column, or its members as
// fields of the record.
func (d *Decoder) takeEvent(data extent) *Error {
	value := d.src[data.from:data.to]
	if d.options.EventData == MergeEventData {
		switch value[0] {
		case 'n':
			return nil
		case '{':
			d.within = true
			defer func() { d.within = false }()
			if _, fault := d.scanObject(d.src, data.from); fault != fine {
				return badSyntax(fault, 0)
			}
			return nil
		}
		return &Error{Code: CodeTypeMismatch, Column: eventData, Message: "the data of the event is not an object, whose members could be columns", Hint: "name a column in ingest.cloudevents.data"}
	}
	column, ok := d.table.index[d.options.EventData]
	if !ok {
		return &Error{Code: CodeUnknownColumn, Column: d.options.EventData, Message: fmt.Sprintf("table %s has no %s, which ingest.cloudevents.data names", quoted(d.table.name), subject(d.options.EventData))}
	}
	if value[0] == '{' || value[0] == '[' {
		if parsed, err := coltype.Parse(d.table.columns[column].Type); err == nil && parsed.Plain().Kind == coltype.String {
			d.made = append(d.made, AppendJSONString(nil, value))
			data = extent{madeHere, len(d.made) - 1}
		}
	}
	d.take(column, data)
	return nil
}
