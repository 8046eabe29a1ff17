package memo

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWhatIsAskedForStays(t *testing.T) {
	m := New[int, string](100)
	_, ok := m.Get(1)
	assert.False(t, ok)
	m.Put(-1, "often")
	for i := range 1000 {
		m.Put(i, "once")
		value, ok := m.Get(-1)
		assert.True(t, ok)
		assert.Equal(t, "often", value)
		assert.LessOrEqual(t, m.Len(), 100)
	}
	assert.Greater(t, m.Len(), 40)
	_, ok = m.Get(1)
	assert.False(t, ok, "what was never asked for is forgotten")
}

func TestTheBoundIsOfTheCost(t *testing.T) {
	m := New[int, string](100)
	for i := range 100 {
		m.PutCost(i, "", 20)
		assert.LessOrEqual(t, m.Len(), 5)
	}
	one := New[int, string](100)
	for range 100 {
		one.PutCost(1, "again", 20)
	}
	assert.Empty(t, one.old, "a value that is put again is not counted again")
}
