package pipes

import "strings"

// Outline is a statement on one line, without comments and without the values in
// it: ? stands for each text and number. It is fit for a log.
func Outline(sql string) string {
	var b strings.Builder
	gap := false
	for _, t := range scan(sql) {
		switch t.kind {
		case space, comment:
			gap = b.Len() > 0
			continue
		}
		if gap {
			b.WriteByte(' ')
			gap = false
		}
		switch t.kind {
		case text, number:
			b.WriteByte('?')
		default:
			b.WriteString(sql[t.start:t.end])
		}
	}
	return b.String()
}
