package clickhouse

import (
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func idleOf(h *httpConns) []*httpConn {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.idle)
}

// Requests that end together find their connections again; a moment later only as
// many are kept as were asked for.
func TestSpareConnectionsWaitAMomentForWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHTTPConns(2, 4)
		conns := make([]*httpConn, 5)
		for i := range conns {
			raw, _ := net.Pipe()
			conns[i] = newHTTPConn(h, "ch:8123", raw)
		}
		keep := func(some ...*httpConn) {
			for _, conn := range some {
				h.keep(conn)
			}
			synctest.Wait()
		}
		keep(conns...)
		require.Len(t, idleOf(h), 4)
		_, err := conns[4].raw.Write([]byte("x"))
		require.Error(t, err, "more than may be open are closed at once")

		for i := range 4 {
			require.Same(t, conns[3-i], h.take("ch:8123"), "the one used last is the first")
		}
		require.Nil(t, h.take("ch:8123"))
		keep(conns[:4]...)
		time.Sleep(spareTimeout + time.Millisecond)
		synctest.Wait()
		assert.Equal(t, conns[:2], idleOf(h))
		time.Sleep(idleTimeout)
		synctest.Wait()
		assert.Empty(t, idleOf(h))
	})
}

func TestNoConnectionIsKeptWhereNoneIsToBe(t *testing.T) {
	h := newHTTPConns(0, 4)
	raw, _ := net.Pipe()
	h.keep(newHTTPConn(h, "ch:8123", raw))
	require.Empty(t, idleOf(h))
}
