package dedupe

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A place that was right stays so when nobody can be asked, and is looked at again
// in its time.
func TestALookWithoutAnAnswerChangesNothing(t *testing.T) {
	var answer Verdict
	silent := errors.New("no answer")
	failure := silent
	i := NewInspected(Inspection{
		Place: "table", Name: "ids", Timeout: time.Minute, Recheck: time.Hour, Logger: slog.New(slog.DiscardHandler),
		Look: func(context.Context) (Verdict, error) { return answer, failure },
	})
	use := func() error { return i.Use(t.Context(), func(context.Context) error { return nil }) }
	require.ErrorIs(t, use(), silent, "it was never seen")
	require.ErrorIs(t, use(), ErrUnavailable)
	require.False(t, i.due(), "nobody wants it")
	failure = nil
	require.NoError(t, i.Want(t.Context(), true))
	require.NoError(t, use())
	require.True(t, i.Right())
	failure = silent
	require.NoError(t, i.Want(t.Context(), true))
	require.True(t, i.Right())
	require.False(t, i.due())
	i.looked = time.Now().Add(-inspectEvery)
	require.True(t, i.due())
	failure, answer = nil, Verdict{Fault: errors.New("its key is another")}
	require.ErrorContains(t, i.Want(t.Context(), true), "its key is another")
	require.ErrorIs(t, use(), ErrUnavailable)
	require.False(t, i.Usable())
	answer = Verdict{Advice: errors.New("TTL is off")}
	require.NoError(t, i.Want(t.Context(), true))
	require.True(t, i.Usable())
	require.False(t, i.Right())
	require.NoError(t, i.Want(t.Context(), false))
}
