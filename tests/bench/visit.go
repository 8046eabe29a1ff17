package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fastjson"
)

// visitRows is the time that parsing a row and looking at each of its values
// takes, on one core: what a row costs that is only read.
func visitRows(t testing.TB, bodies []string, during time.Duration) time.Duration {
	t.Helper()
	var scanner fastjson.Scanner
	rows, bytes := 0, 0
	start := time.Now()
	for i := 0; time.Since(start) < during; i++ {
		scanner.Init(bodies[i%len(bodies)])
		for scanner.Next() {
			object, err := scanner.Value().Object()
			require.NoError(t, err)
			object.Visit(func(key []byte, v *fastjson.Value) {
				bytes += len(key)
				switch v.Type() {
				case fastjson.TypeString:
					bytes += len(v.GetStringBytes())
				case fastjson.TypeNumber:
					bytes += int(v.GetFloat64())
				}
			})
			rows++
		}
		require.NoError(t, scanner.Error())
	}
	require.NotZero(t, bytes)
	return time.Since(start) / time.Duration(rows)
}
