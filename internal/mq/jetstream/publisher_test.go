package jetstream

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
)

func TestUnansweredPublish(t *testing.T) {
	e := NewPending("s", nil)
	require.ErrorIs(t, e.Await(context.Background(), time.Millisecond).Err, mq.ErrOutcomeUnknown)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, e.Await(ctx, time.Minute).Err, mq.ErrOutcomeUnknown)
	e.finish(Outcome{Seq: 3})
	require.Equal(t, Outcome{Seq: 3}, e.Await(ctx, time.Minute))
}

func TestAnswersAreClassified(t *testing.T) {
	answer := func(body string) error { return parseAnswer(&nats.Msg{Data: []byte(body)}).Err }
	for body, want := range map[string]error{
		`{"stream":"s","seq":4}`: nil,
		`{"error":{"code":503,"err_code":10077,"description":"maximum bytes exceeded"}}`:                   mq.ErrFull,
		`{"error":{"code":500,"err_code":10047,"description":"insufficient storage resources available"}}`: mq.ErrFull,
		`{"error":{"code":400,"err_code":10054,"description":"message size exceeds maximum allowed"}}`:     mq.ErrTooLarge,
		`{"error":{"code":503,"err_code":10077,"description":"message to store is too large"}}`:            mq.ErrTooLarge,
		`{"error":{"code":503,"err_code":10077,"description":"input/output error"}}`:                       mq.ErrOutcomeUnknown,
		`{"error":{"code":429,"err_code":10167,"description":"too many requests"}}`:                        mq.ErrUnavailable,
		`{"stream":"s"}`: mq.ErrOutcomeUnknown,
		`garbage`:        mq.ErrOutcomeUnknown,
	} {
		require.ErrorIs(t, answer(body), want, body)
	}
	m := nats.NewMsg("x")
	m.Header.Set("Status", "503")
	require.ErrorIs(t, parseAnswer(m).Err, mq.ErrUnavailable)
}

// What the server would not take is refused for what it is, and is nobody's to
// wait for.
func TestWhatCannotBeSentSaysWhy(t *testing.T) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, MaxPayload: 1 << 10, NoSigs: true, NoLog: true})
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(30*time.Second))
	nc, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	p, err := NewPublisher(nc)
	require.NoError(t, err)
	send := func(size int) error {
		e := NewPending("s", nil)
		return p.Send(t.Context(), &nats.Msg{Subject: "s", Data: make([]byte, size)}, &e)
	}
	require.ErrorIs(t, send(2<<10), mq.ErrTooLarge)
	nc.Close()
	require.ErrorIs(t, send(1), mq.ErrUnavailable)
	require.Zero(t, p.Waiting())
}
