package embedded

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/mq/mqtest"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

const crashDir = "WH_TEST_QUEUE_CRASH_DIR"

// TestCrashChild is the process that is killed. It says what it was promised:
// P for a chunk that is stored, A for one that is acknowledged, after an I for
// one that it is about to acknowledge.
func TestCrashChild(t *testing.T) {
	dir := os.Getenv(crashDir)
	if dir == "" {
		return // This is the parent's own run: the child is told a directory.
	}
	b := start(t, Options{Dir: dir})
	var c mq.Consumption
	ready := make(chan struct{})
	c, err := b.Consume(t.Context(), mqtest.Work(func(d mq.Delivery) {
		<-ready
		if seqOf(d.Position())%3 == 0 {
			return
		}
		fmt.Printf("I %s\n", d.Chunk().Body)
		require.NoError(t, c.Ack(d))
		fmt.Printf("A %s\n", d.Chunk().Body)
	}))
	require.NoError(t, err)
	close(ready)
	for w := range 3 {
		go func() {
			for n := 0; ; n++ {
				body := fmt.Sprintf("%d-%d-%d", os.Getpid(), w, n)
				if _, err := b.Publish(context.Background(), mqtest.Chunk(tenant.ID(fmt.Sprint("t", w%2)), "t", body)); err == nil {
					fmt.Printf("P %s\n", body)
				}
			}
		}()
	}
	time.Sleep(time.Minute)
}

// promises are the bodies of chunks that the child spoke of.
type promises struct{ published, intended, acked map[string]bool }

func newPromises() promises {
	return promises{map[string]bool{}, map[string]bool{}, map[string]bool{}}
}

func (p promises) note(line string) {
	what, body, _ := strings.Cut(line, " ")
	switch what {
	case "P":
		p.published[body] = true
	case "I":
		p.intended[body] = true
	case "A":
		p.acked[body] = true
	}
}

// runUntilKilled runs the child until it wrote that many lines, and kills it.
func runUntilKilled(t *testing.T, dir string, lines int) promises {
	cmd := exec.Command(os.Args[0], "-test.run=^TestCrashChild$")
	cmd.Env = append(os.Environ(), crashDir+"="+dir)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	p := newPromises()
	in := bufio.NewScanner(out)
	for n := 0; in.Scan(); n++ {
		if n == lines {
			require.NoError(t, cmd.Process.Kill())
		}
		p.note(in.Text())
	}
	require.Error(t, cmd.Wait(), "killed")
	require.NotEmpty(t, p.acked)
	return p
}

func TestAcknowledgedMeansDurable(t *testing.T) {
	dir := t.TempDir()
	all := newPromises()
	for round := range 4 {
		p := runUntilKilled(t, dir, 200+90*round)
		for body := range p.acked {
			require.False(t, all.acked[body], "%s was acknowledged before an earlier kill", body)
		}
		maps.Copy(all.published, p.published)
		maps.Copy(all.intended, p.intended)
		maps.Copy(all.acked, p.acked)
	}
	b := start(t, Options{Dir: dir})
	opened := time.Now()
	in, c := consumeInto(t, b)
	delivered := map[string]int{}
	missing := func() (n int) {
		for body := range all.published {
			if !all.intended[body] && delivered[body] == 0 {
				n++
			}
		}
		return n
	}
	require.Eventually(t, func() bool {
		clear(delivered)
		for _, d := range in.list() {
			delivered[string(d.Chunk().Body)]++
		}
		return missing() == 0
	}, time.Minute, 10*time.Millisecond, "published chunks are missing")
	t.Logf("%d published, %d acknowledged, %d delivered again after %s", len(all.published), len(all.acked), len(delivered), time.Since(opened))
	for body, n := range delivered {
		require.False(t, all.acked[body], "%s was acknowledged and is delivered again", body)
		require.Equal(t, 1, n)
	}
	require.NoError(t, c.Ack(in.list()...))
}
