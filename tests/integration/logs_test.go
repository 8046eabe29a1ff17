package integration

import (
	"strings"
	"sync"
)

// logs keeps what a server logged.
type logs struct {
	mu   sync.Mutex
	text []byte
}

const maxLogs = 32 << 20

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if room := maxLogs - len(l.text); room > 0 {
		l.text = append(l.text, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

func (l *logs) tail(n int) string {
	text := l.String()
	return text[max(0, len(text)-n):]
}

// lines returns the lines that hold all of the parts.
func (l *logs) lines(parts ...string) []string {
	var found []string
next:
	for line := range strings.Lines(l.String()) {
		for _, part := range parts {
			if !strings.Contains(line, part) {
				continue next
			}
		}
		found = append(found, line)
	}
	return found
}
