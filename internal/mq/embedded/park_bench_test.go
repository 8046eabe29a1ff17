package embedded

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/mqtest"
)

// BenchmarkPark is one parked row per operation, 500 at a time.
func BenchmarkPark(b *testing.B) {
	br := newBenchBroker(b)
	letters := make([]mq.DeadLetter, 0, b.N)
	for i := range b.N {
		letters = append(letters, mqtest.Letter("t", "t", fmt.Sprint("row ", i)))
	}
	b.ResetTimer()
	for at := 0; at < len(letters); at += 500 {
		require.NoError(b, br.Park(b.Context(), letters[at:min(at+500, len(letters))]...))
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "letters/s")
}

// BenchmarkDiscard removes one letter per operation, by name and by range.
func BenchmarkDiscard(b *testing.B) {
	for _, whole := range []bool{false, true} {
		b.Run(fmt.Sprintf("range=%t", whole), func(b *testing.B) {
			br := newBenchBroker(b)
			letters := make([]mq.DeadLetter, 0, b.N)
			for i := range b.N {
				letters = append(letters, mqtest.Letter("t", "t", fmt.Sprint("row ", i)))
			}
			require.NoError(b, br.Park(b.Context(), letters...))
			store, err := br.DeadLetters("t")
			require.NoError(b, err)
			b.ResetTimer()
			for {
				page, err := store.List(b.Context(), "t", 1000, "")
				require.NoError(b, err)
				if len(page.Letters) == 0 {
					return
				}
				if whole {
					_, err = store.DiscardThrough(b.Context(), "t", page.Letters[len(page.Letters)-1].ID)
				} else {
					var ids []string
					for _, l := range page.Letters {
						ids = append(ids, l.ID)
					}
					_, err = store.Discard(b.Context(), ids...)
				}
				require.NoError(b, err)
			}
		})
	}
}
