package app

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/notice"
	"github.com/wavehouse/wavehouse/internal/notice/local"
)

// Who is answered after a statement that wrote is never answered with what was
// cached before it.
func TestAStatementIsAnsweredOnceItWasHeard(t *testing.T) {
	bus := local.New()
	a := &App{backends: backends{notices: bus}}
	entered, release, heard := make(chan struct{}), make(chan struct{}), false
	bus.Listen(func(all []notice.Notice) {
		close(entered)
		<-release
		heard = assert.ObjectsAreEqual([]notice.Notice{notice.Statement{Tenant: "birch", Changed: true}}, all)
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- bus.Run(ctx) }()
	go func() {
		<-entered
		close(release)
	}()
	a.Wrote(t.Context(), "birch", true)
	assert.True(t, heard)
	cancel()
	require.NoError(t, <-ended)
}
