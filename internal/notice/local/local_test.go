package local_test

import (
	"testing"

	"github.com/wavehouse/wavehouse/internal/notice"
	"github.com/wavehouse/wavehouse/internal/notice/local"
	"github.com/wavehouse/wavehouse/internal/notice/noticetest"
)

func TestConformance(t *testing.T) {
	noticetest.Run(t, func(*testing.T) *noticetest.Subject {
		return &noticetest.Subject{Buses: []notice.Bus{local.New()}}
	})
}

// BenchmarkTell is what a notice costs its teller, with one listener and with
// none.
func BenchmarkTell(b *testing.B) {
	for name, listeners := range map[string]int{"heard": 1, "unheard": 0} {
		b.Run(name, func(b *testing.B) {
			bus := local.New()
			for range listeners {
				bus.Listen(func([]notice.Notice) {})
			}
			go func() { _ = bus.Run(b.Context()) }()
			b.ReportAllocs()
			for b.Loop() {
				bus.Tell(notice.Written{Inserted: 1})
			}
		})
	}
}
