package dedupe

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReservationsThatAreRememberedAreBounded(t *testing.T) {
	h, now, anna, boris := NewHeld[int](), time.Now(), NewOwner(), NewOwner()
	for i := range maxHeld + 10 {
		h.Add(anna, fmt.Sprint(i), now.Add(time.Second), i)
	}
	require.Len(t, h.all, maxHeld)
	about, ok := h.Take(anna, "7", now)
	require.True(t, ok)
	require.Equal(t, 7, about)
	for what, taken := range map[string]func() (int, bool){
		"once":                           func() (int, bool) { return h.Take(anna, "7", now) },
		"another's":                      func() (int, bool) { return h.Take(boris, "1", now) },
		"its lease is over":              func() (int, bool) { return h.Take(anna, "2", now.Add(time.Second)) },
		"one too many is not remembered": func() (int, bool) { return h.Take(anna, fmt.Sprint(maxHeld+1), now) },
	} {
		_, ok := taken()
		require.False(t, ok, what)
	}
	h.Sweep(now.Add(time.Second))
	require.Empty(t, h.all)
}
