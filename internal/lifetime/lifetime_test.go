package lifetime

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnEndRefusesWhatComesAndWaitsForWhatIsUnderWay(t *testing.T) {
	over := errors.New("it is over")
	l := New(over)
	bound, done, err := l.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Close())
	require.ErrorIs(t, l.Close(), over)
	require.ErrorIs(t, l.Enter(), over)
	_, _, err = l.Begin(t.Context())
	require.ErrorIs(t, err, over)
	require.NoError(t, bound.Err(), "it may still go on")

	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, l.End(impatient), context.Canceled, "it is under way")
	<-bound.Done()
	require.ErrorIs(t, context.Cause(bound), over)
	require.Error(t, l.Context().Err())
	done()
	require.NoError(t, l.End(t.Context()))
}
