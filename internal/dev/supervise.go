package dev

import (
	"fmt"
	"os/exec"
	"runtime"
	"time"
)

// A ClickHouse that ends by itself is started again, because its data is on
// disk and the server waits for it; one that keeps ending is given up.
const (
	maxRestarts    = 5
	restartsWithin = time.Minute
	restartPause   = 200 * time.Millisecond
)

// supervise runs ClickHouse until it is stopped or given up. It keeps its
// thread: where the kernel can end a process together with its parent, it is
// the thread that counts.
func (c *clickhouse) supervise(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd, err := c.start()
	started <- err
	if err != nil {
		return
	}
	var restarts []time.Time
	for {
		err := waitFor(cmd)
		if !c.restartable(&restarts) {
			c.end(err)
			return
		}
		c.say.line("ClickHouse ended (%v): starting it again", err)
		time.Sleep(restartPause)
		if cmd, err = c.start(); err != nil {
			c.end(err)
			return
		}
	}
}

func waitFor(cmd *exec.Cmd) error {
	if err := cmd.Wait(); err != nil {
		return err
	}
	return fmt.Errorf("%s exited", cmd.Path)
}

// restartable says whether an end is worth another start, and notes it.
func (c *clickhouse) restartable(restarts *[]time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopping || !c.ready {
		return false
	}
	now := time.Now()
	recent := (*restarts)[:0]
	for _, at := range *restarts {
		if now.Sub(at) < restartsWithin {
			recent = append(recent, at)
		}
	}
	*restarts = append(recent, now)
	return len(*restarts) <= maxRestarts
}

// end tells that there will be no ClickHouse any more.
func (c *clickhouse) end(err error) {
	c.exitErr = err
	close(c.exited)
	c.unexpectedExit <- fmt.Errorf("ClickHouse ended: %w", err)
}
