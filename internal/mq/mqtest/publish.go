package mqtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
)

func publishCases() []testCase {
	return []testCase{
		{name: "publish/durable over restart", run: durable},
		{name: "publish/duplicate ids are dropped", run: duplicates},
		{name: "publish/lost answer retried under one id stores once", run: lostAnswer},
		{name: "publish/ended context stores nothing", run: endedContext},
		{name: "publish/too large", run: tooLarge},
		{name: "publish/for as long as it says duplicates are dropped", run: duplicateWindow},
	}
}

func durable(t *testing.T, s Store) {
	b := open(t, s)
	tables := []string{"plain", "a.b", "weird é/%.* >", ""}
	var want []mq.Chunk
	for n := range 40 {
		c := Chunk("birch", tables[n%len(tables)], fmt.Sprint("row ", n))
		if n%5 == 0 {
			c.ID = fmt.Sprint("id % \r\n", n)
		}
		want = append(want, c)
		publish(t, b, c)
	}
	publishMany(t, b, "cedar", "t", 3)
	b = reopen(t, s, b)
	in, _ := consume(t, b)
	in.await(t, 43)
	for _, table := range tables {
		topic := mq.Topic{Tenant: "birch", Table: table}
		require.Equal(t, of(want, topic), of(in.chunks(), topic))
	}
}

func duplicates(t *testing.T, s Store) {
	b := open(t, s)
	c := Chunk("birch", "t", "once")
	c.ID = "same"
	first := publish(t, b, c)
	publish(t, b, Chunk("birch", "t", "between"))
	require.Equal(t, first, publish(t, b, c))
	c.Tenant = "cedar"
	publish(t, b, c)
	c.Tenant, c.ID = "birch", "other"
	require.NotEqual(t, first, publish(t, b, c))
	b = reopen(t, s, b)
	c.ID = "same"
	require.Equal(t, first, publish(t, b, c), "after a restart")
	in, _ := consume(t, b)
	in.await(t, 4)
	in.settled(t, b, "birch", 4)
}

// lostAnswer ends the publisher's context at every moment around the send.
func lostAnswer(t *testing.T, s Store) {
	b := open(t, s)
	publish(t, b, Chunk("birch", "t", "opens the queue"))
	unknown, n := 0, 0
	for ; n < 60 || unknown == 0 && n < 600; n++ {
		c := Chunk("birch", "t", fmt.Sprint("chunk ", n))
		c.ID = fmt.Sprint("id", n)
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n*15)*time.Microsecond)
		_, err := b.Publish(ctx, c)
		cancel()
		if err != nil {
			require.True(t, errors.Is(err, mq.ErrOutcomeUnknown) || errors.Is(err, mq.ErrUnavailable), "%v", err)
		}
		if errors.Is(err, mq.ErrOutcomeUnknown) {
			unknown++
		}
		publish(t, b, c)
	}
	require.Positive(t, unknown, "no publish was cut off between send and answer")
	in, _ := consume(t, b)
	in.await(t, n+1)
	in.settled(t, b, "birch", n+1)
}

func endedContext(t *testing.T, s Store) {
	b := open(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := b.Publish(ctx, Chunk("birch", "t", "never"))
	require.ErrorIs(t, err, mq.ErrUnavailable)
	require.ErrorIs(t, err, context.Canceled)
	publish(t, b, Chunk("birch", "t", "first"))
	_, err = b.Publish(ctx, Chunk("birch", "t", "never"))
	require.ErrorIs(t, err, mq.ErrUnavailable)
	in, _ := consume(t, b)
	in.await(t, 1)
	in.settled(t, b, "birch", 1)
}

func tooLarge(t *testing.T, s Store) {
	b := open(t, s)
	c := Chunk("birch", "t", "")
	most := b.MaxChunkBytes()
	require.LessOrEqual(t, most, mq.MaxChunkBytes)
	c.Body = make([]byte, most)
	_, err := b.Publish(t.Context(), c)
	require.ErrorIs(t, err, mq.ErrTooLarge)
	c.Body = bytes.Repeat([]byte{7}, most-1024)
	publish(t, b, c)
	in, _ := consume(t, b)
	require.Equal(t, c.Body, in.await(t, 1)[0].Chunk().Body)
}

func duplicateWindow(t *testing.T, s Store) {
	require.Positive(t, open(t, s).DuplicateWindow())
}
