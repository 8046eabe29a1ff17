package local

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/coord"
	"github.com/wavehouse/wavehouse/internal/coord/coordtest"
)

func TestConformance(t *testing.T) {
	coordtest.Run(t, func(*testing.T) coord.Coordinator { return New() })
}

func TestCloseGivesUpOnARunThatStays(t *testing.T) {
	c := New()
	running, release, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Elect(context.Background(), "a", func(context.Context, coord.Token) error { close(running); <-release; return nil })
	}()
	<-running
	waiting, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, c.Elect(waiting, "a", nil), context.DeadlineExceeded, "held by the other")
	require.ErrorIs(t, c.Close(waiting), context.DeadlineExceeded)
	close(release)
	<-done
}
