package harness

import (
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Process is a running command. It is killed when the test ends.
type Process struct {
	cmd    *exec.Cmd
	exited chan struct{}
	err    error
	output *tail
}

// tail keeps what a process wrote, up to a bound.
type tail struct {
	mu   sync.Mutex
	data []byte
}

const maxTail = 16 << 20

func (b *tail) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if room := maxTail - len(b.data); room > 0 {
		b.data = append(b.data, p[:min(room, len(p))]...)
	}
	return len(p), nil
}

func (b *tail) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.data)
}

// StartProcess runs a command in a process group of its own; env is added to a
// clean environment.
func StartProcess(t testing.TB, dir string, env []string, name string, args ...string) *Process {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := &Process{cmd: cmd, exited: make(chan struct{}), output: &tail{}}
	cmd.Stdout, cmd.Stderr = p.output, p.output
	cmd.WaitDelay = 2 * time.Second
	// Standard input stays open for as long as the test runs.
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	go func() {
		p.err = cmd.Wait()
		close(p.exited)
	}()
	t.Cleanup(func() {
		// What it started in its own group, such as the processes of a browser,
		// goes with it, and is waited for as far as it has its output: nothing
		// writes to the test's directories while they are removed.
		_ = syscall.Kill(-p.PID(), syscall.SIGKILL)
		p.Kill()
		_ = stdin.Close()
		if t.Failed() {
			t.Logf("output of %s:\n%s", name, lastBytes(p.Output(), 8<<10))
		}
	})
	return p
}

func lastBytes(s string, n int) string {
	if len(s) > n {
		return "…" + s[len(s)-n:]
	}
	return s
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Output is what it wrote so far, both streams.
func (p *Process) Output() string { return p.output.String() }

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// ended reports whether the process has ended.
func (p *Process) ended() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// Signal sends a signal to the process alone.
func (p *Process) Signal(signal syscall.Signal) { _ = p.cmd.Process.Signal(signal) }

// Interrupt sends what a Ctrl-C sends: SIGINT to the whole group.
func (p *Process) Interrupt() { _ = syscall.Kill(-p.PID(), syscall.SIGINT) }

// Kill ends the process at once, if it still runs, and waits.
func (p *Process) Kill() {
	select {
	case <-p.exited:
	default:
		_ = p.cmd.Process.Kill()
		<-p.exited
	}
}

// Wait waits for the process to end by itself and returns its exit code, -1
// for a signal.
func (p *Process) Wait(t testing.TB, within time.Duration) int {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(within):
		require.FailNow(t, "the process did not end", "within %s; it wrote:\n%s", within, lastBytes(p.Output(), 4<<10))
	}
	return p.cmd.ProcessState.ExitCode()
}
