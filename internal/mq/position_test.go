package mq

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPositionsOfOneQueueAreInOrder(t *testing.T) {
	a, b, other := NewPosition(7, 1), NewPosition(7, 2), NewPosition(8, 1)
	for _, c := range []struct {
		p, q  Position
		order int
		ok    bool
	}{
		{a, a, 0, true}, {a, b, -1, true}, {b, a, 1, true}, {a, other, 0, false}, {other, a, 0, false},
		{Position{}, a, -1, true}, {other, Position{}, 1, true}, {Position{}, Position{}, 0, true},
	} {
		order, ok := c.p.Compare(c.q)
		require.Equal(t, c.order, order, "%v and %v", c.p, c.q)
		require.Equal(t, c.ok, ok, "%v and %v", c.p, c.q)
		require.Equal(t, ok && order < 0, c.p.Before(c.q))
	}
	require.Equal(t, a, b.Prev())
	require.True(t, a.Prev().Before(a))
	require.Equal(t, a.Prev(), a.Prev().Prev(), "nothing is before the start")
	require.False(t, a.Prev().IsZero())
	require.True(t, Position{}.Prev().IsZero())
}

func TestFormsOfAPosition(t *testing.T) {
	for text, p := range map[string]Position{
		"0.0": {}, "1754512345678901234.300": NewPosition(1754512345678901234, 300),
		"18446744073709551615.18446744073709551615": NewPosition(math.MaxUint64, math.MaxUint64),
	} {
		require.Equal(t, text, p.String())
		got, err := ParsePosition(text)
		require.NoError(t, err)
		require.Equal(t, p, got)
	}
	for _, text := range []string{"", "1", "1.", ".1", "1.2.3", "-1.2", "1.18446744073709551616", "a.1"} {
		_, err := ParsePosition(text)
		require.Error(t, err, text)
	}
	require.Equal(t, []byte{0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 3}, NewPosition(258, 3).AppendBinary(nil))
}
