package dev

import (
	"fmt"
	"os/exec"
	"runtime"
)

// supervise starts cmd and waits for it. It keeps its thread: where the kernel
// can end a process together with its parent, it is the thread that counts.
func (c *clickhouse) supervise(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = ownGroup()
	if err := cmd.Start(); err != nil {
		started <- fmt.Errorf("start ClickHouse: %w", err)
		return
	}
	started <- nil
	err := cmd.Wait()
	if err == nil {
		err = fmt.Errorf("%s exited", cmd.Path)
	}
	c.exitErr = err
	close(c.exited)
	c.unexpectedExit <- fmt.Errorf("ClickHouse ended: %w", err)
}
