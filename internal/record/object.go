package record

// scanObject reads the object at b[at] into values and bits, and returns the
// offset after it or that of what is wrong with it. A column that is at fault
// is remembered, and the rest is still checked.
func (d *Decoder) scanObject(b []byte, at int) (end int, fault syntax) {
	d.src = b
	i := skipSpace(b, at+1)
	if i < len(b) && b[i] == '}' {
		return i + 1, fine
	}
	for nth := 0; ; nth++ {
		column, value, fault := d.scanColumn(b, i, nth)
		if fault != fine {
			return value, fault
		}
		if end, fault = scanValue(b, value, 1); fault != fine {
			return end, fault
		}
		if column >= 0 {
			d.take(column, extent{value, end})
		} else if column == setAside {
			d.aside[len(d.aside)-1].value = extent{value, end}
		}
		if i = end; i < len(b) && b[i] != ',' && b[i] != '}' {
			i = skipSpace(b, i)
		}
		switch {
		case i >= len(b):
			return i, unexpectedEnd
		case b[i] == '}':
			return i + 1, fine
		case b[i] != ',':
			return i, unexpectedByte
		}
		i = skipSpace(b, i+1)
	}
}

// scanColumn reads the nth key and its colon, and returns its column, negative
// for one that the table lacks, and the offset of the value. It guesses that
// keys come as in the record before.
func (d *Decoder) scanColumn(b []byte, i, nth int) (column, value int, fault syntax) {
	if nth < len(d.order) {
		column = d.order[nth]
		key := d.table.fields[column].key
		if end := i + len(key); end <= len(b) && string(b[i:end]) == string(key) {
			value, fault = scanColon(b, end)
			return column, value, fault
		}
	}
	if value, fault = scanKey(b, i); fault != fine {
		return 0, value, fault
	}
	end, _ := scanString(b, i)
	column = d.columnOf(b[i:end])
	switch {
	case column < 0:
	case nth < len(d.order):
		d.order[nth] = column
	case nth == len(d.order) && nth < cap(d.order):
		d.order = append(d.order, column)
	}
	return column, value, fine
}

// columnOf finds the column of a key, or what else it is.
func (d *Decoder) columnOf(key []byte) int {
	name := unquote(key)
	if column, ok := d.table.index[string(name)]; ok && (d.options.EventData == "" || d.within || string(name) != eventData) {
		return column
	}
	return d.unusual(name)
}

// blame remembers the record's first fault.
func (d *Decoder) blame(fault *Error) {
	if d.fault == nil {
		d.fault = fault
	}
}

// take notes the value of a column.
func (d *Decoder) take(column int, s extent) {
	if !d.admit(column) {
		return
	}
	d.values[column] = s
	if !d.table.fields[column].nullOmits || !isNull(d.text(s)) {
		setBit(d.carried, column)
	}
}

// admit notes that the record sends a column, and blames it for what it may
// not send. It is false when the column stands there already.
func (d *Decoder) admit(column int) bool {
	f := &d.table.fields[column]
	switch {
	case hasBit(d.sent, column):
		d.refuse(column, CodeDuplicateColumn, "stands more than once")
		return false
	// The grant is asked first: who has none for a column is told nothing of it.
	case d.access[column] != accessGranted && !d.granted(column):
		d.blame(NotAllowed(d.table.columns[column].Name))
	case f.computed:
		d.refuse(column, CodeColumnComputed, "is computed by ClickHouse and cannot be sent")
	}
	setBit(d.sent, column)
	return true
}

func (d *Decoder) refuse(column int, code, message string) {
	name := d.table.columns[column].Name
	fault := &Error{Code: code, Column: name, Message: subject(name) + " " + message}
	if code == CodeColumnComputed {
		fault.Hint = "leave it out"
	}
	d.blame(fault)
}

// granted asks once per column whether it may be sent.
func (d *Decoder) granted(column int) bool {
	if d.access[column] == accessUnknown {
		d.access[column] = accessRefused
		if d.options.Allow == nil || d.options.Allow(column) {
			d.access[column] = accessGranted
		}
	}
	return d.access[column] == accessGranted
}
