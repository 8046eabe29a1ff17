package clickhouse

import "strings"

// parseSummary reads the header in which ClickHouse counts: a flat object whose
// numbers are strings. One that is missing is zero.
func parseSummary(header string) Summary {
	return Summary{
		ReadRows: counted(header, `"read_rows":"`), ReadBytes: counted(header, `"read_bytes":"`),
		WrittenRows: counted(header, `"written_rows":"`), WrittenBytes: counted(header, `"written_bytes":"`),
		ResultRows: counted(header, `"result_rows":"`), ResultBytes: counted(header, `"result_bytes":"`),
	}
}

// counted reads the digits behind a name.
func counted(header, name string) (n uint64) {
	at := strings.Index(header, name)
	if at < 0 {
		return 0
	}
	for _, digit := range []byte(header[at+len(name):]) {
		if digit < '0' || digit > '9' {
			break
		}
		n = n*10 + uint64(digit-'0')
	}
	return n
}
