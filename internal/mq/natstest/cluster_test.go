package natstest

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

func TestAServerKeepsItsStoreOverAKill(t *testing.T) {
	c := Start(t, Options{})
	js := c.JetStream(t)
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	require.NoError(t, err)
	_, err = js.Publish(t.Context(), "s.1", []byte("x"))
	require.NoError(t, err)
	c.Nodes[0].Kill()
	_, err = js.Publish(t.Context(), "s.1", []byte("x"))
	require.Error(t, err)
	c.Nodes[0].Start(t)
	Await(t, "the stream is there", func(ctx context.Context) error {
		s, err := js.Stream(ctx, "S")
		if err == nil {
			require.EqualValues(t, 1, s.CachedInfo().State.Msgs)
		}
		return err
	})
}

func TestAClusterGoesOnWithoutALeader(t *testing.T) {
	c := Start(t, Options{Nodes: 3})
	nc := c.Connect(t)
	js := c.JetStream(t)
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, Replicas: 3})
	require.NoError(t, err)
	put := func(ctx context.Context) error {
		_, err := js.Publish(ctx, "s.1", []byte("x"))
		return err
	}
	Await(t, "a message is stored", put)
	killed := c.Leader(t, js, "S")
	killed.Kill()
	Await(t, "a message is stored without the leader", put)
	require.NotEqual(t, killed, c.Leader(t, js, "S"))
	killed.Start(t)
	before := c.Leader(t, js, "S")
	c.StepDown(t, nc, "S")
	Await(t, "a message is stored by another leader", put)
	before.Freeze()
	before.Thaw()
	before.Stop()
	Await(t, "a message is stored by two of three", put)
}
