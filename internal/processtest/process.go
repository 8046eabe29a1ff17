// Package processtest builds and runs the real servers of tests: processes that can
// be killed, stopped, halted and started again, and that end with the tests.
package processtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Patience bounds what servers are waited for on a busy machine.
const Patience = 60 * time.Second

// Process is a server in a folder of its own, which outlives it.
type Process struct {
	// Tool is its program, Dir its folder. They do not change.
	Tool, Dir string
	// Answers reports whether it can be used; it is asked until it can.
	Answers func() bool

	mu   sync.Mutex
	cmd  *exec.Cmd // nil while it does not run
	gone chan struct{}
}

// LogFile is where it is to log.
func (p *Process) LogFile() string { return filepath.Join(p.Dir, "server.log") }

// Run runs it until it answers.
func (p *Process) Run(args ...string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := filepath.Base(p.Tool)
	if p.cmd != nil {
		return fmt.Errorf("%s runs already in %s", name, p.Dir)
	}
	cmd := exec.Command(p.Tool, args...)
	cmd.Dir, cmd.SysProcAttr = p.Dir, attributes()
	gone, started := make(chan struct{}), make(chan error)
	go func() {
		// The death signal is sent when the thread that started it ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
		close(gone)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", name, err)
	}
	p.cmd, p.gone = cmd, gone
	if err := p.await(); err != nil {
		p.endLocked(syscall.SIGKILL)
		return fmt.Errorf("start %s: %w: %s", name, err, p.tail())
	}
	return nil
}

func (p *Process) await() error {
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		select {
		case <-p.gone:
			return errors.New("it ended")
		default:
		}
		if p.Answers() {
			return nil
		}
	}
	return fmt.Errorf("it did not answer within %s", Patience)
}

// tail is the end of the log.
func (p *Process) tail() string {
	data, _ := os.ReadFile(p.LogFile())
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// Kill ends it at once, as kill -9 does.
func (p *Process) Kill() { p.end(syscall.SIGKILL) }

// Stop ends it in order.
func (p *Process) Stop() { p.end(syscall.SIGTERM) }

// Freeze halts it until Thaw; its connections stay open.
func (p *Process) Freeze() { p.signal(syscall.SIGSTOP) }

// Thaw has a frozen one go on.
func (p *Process) Thaw() { p.signal(syscall.SIGCONT) }

// Reload has it read its configuration again.
func (p *Process) Reload() { p.signal(syscall.SIGHUP) }

func (p *Process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(s)
	}
}

// PID is the process's id, 0 while it does not run.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

func (p *Process) end(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endLocked(s)
}

func (p *Process) endLocked(s syscall.Signal) {
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Signal(s)
	select {
	case <-p.gone:
	case <-time.After(Patience):
		_ = p.cmd.Process.Kill()
		<-p.gone
	}
	p.cmd = nil
}
