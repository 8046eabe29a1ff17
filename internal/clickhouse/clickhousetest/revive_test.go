package clickhousetest

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAServerThatEndsByItselfIsWaitedFor: what it does not answer is asked
// again once it is back, over its data.
func TestAServerThatEndsByItselfIsWaitedFor(t *testing.T) {
	s := Start(t)
	if s.process == nil {
		t.Skip("the server is somebody else's")
	}
	s.Exec(t, "CREATE TABLE t (n UInt8) ENGINE = MergeTree ORDER BY n", "INSERT INTO t VALUES (1)")
	s.process.mu.Lock()
	s.process.revivals++ // this one is the test's
	pid := s.process.cmd.Process.Pid
	s.process.mu.Unlock()
	require.NoError(t, syscall.Kill(pid, syscall.SIGABRT))
	for n := range 20 {
		s.Exec(t, fmt.Sprintf("CREATE TABLE t%d (n UInt8) ENGINE = MergeTree ORDER BY n", n))
	}
	require.Equal(t, 1, s.Count(t, "t"))
	require.False(t, unanswered("INSERT INTO t VALUES (1)", nil))
}
