package embedded

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
	"github.com/wavehouse/wavehouse/internal/mq/mqtest"
)

func letters(n int) []mq.DeadLetter {
	all := make([]mq.DeadLetter, n)
	for i := range all {
		all[i] = mqtest.Letter("birch", "t", fmt.Sprint("row ", i))
	}
	return all
}

// A stream that was made before letters were stored in batches learns to take
// them when it is opened.
func TestLettersOfAnEarlierStream(t *testing.T) {
	o := Options{Dir: t.TempDir(), Logger: quiet()}
	b, err := New(o)
	require.NoError(t, err)
	require.NoError(t, b.Park(t.Context(), letters(1)...))
	cfg := letterConfig("birch", 0)
	most := letterConfig("birch", b.queue("birch").current()).MaxBytes
	cfg.MaxBytes, cfg.AllowAtomicPublish = most, false
	require.NoError(t, b.host.update(t.Context(), cfg))
	require.NoError(t, b.Close(context.Background()))

	b, err = New(o)
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close(context.Background())) }()
	require.NoError(t, b.Park(t.Context(), letters(20)...))
	require.EqualValues(t, 21, statusOf(t, b, "birch").DeadLetters)
	info, err := jetstream.Info(t.Context(), b.host.js, letterStream("birch"))
	require.NoError(t, err)
	require.Equal(t, most, info.Config.MaxBytes, "its budget stays")
}

// A batch whose last message never comes stores nothing, and is in nobody's
// way.
func TestLettersWhoseBatchIsCutShort(t *testing.T) {
	b, err := New(Options{Dir: t.TempDir(), Logger: quiet()})
	require.NoError(t, err)
	defer func() { require.NoError(t, b.Close(context.Background())) }()
	require.NoError(t, b.Park(t.Context(), letters(2)...))
	for n, l := range letters(9) {
		m := &nats.Msg{Subject: jetstream.Subject(letterSubjects, l.Topic), Header: jetstream.EncodeLetter(&l), Data: l.Row}
		m.Header["Nats-Batch-Id"], m.Header["Nats-Batch-Sequence"] = []string{"cut"}, []string{strconv.Itoa(n + 1)}
		require.NoError(t, b.gated().SendPart(m))
	}
	require.NoError(t, b.Park(t.Context(), letters(5)...))
	require.EqualValues(t, 7, statusOf(t, b, "birch").DeadLetters)
}
