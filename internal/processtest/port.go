package processtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// The ports that FreePort gives out lie below those that a system gives to every
// connection that is made, and to who listens without naming one: of those a test
// that runs beside this one may have taken it by the time a server binds it, or is
// started again on it. Each process has a block of them for itself.
const (
	lowestPort = 10_000
	blockPorts = 200
	blocks     = 100
)

// ports are a process's block.
type ports struct {
	claim *os.File // locked while the process lives
	first int

	mu    sync.Mutex
	given int
}

//nolint:gochecknoglobals // whoever asks in a process shares its ports
var own = sync.OnceValues(take)

// FreePort returns a port of 127.0.0.1 that nobody listens on, and that nobody else is
// given who asks here, in this process or another, for as long as it is needed.
func FreePort() (int, error) {
	p, err := own()
	if err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for range blockPorts {
		port := p.first + p.given%blockPorts
		p.given++
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			_ = l.Close()
			return port, nil
		}
	}
	return 0, fmt.Errorf("find a port: %d from %d on are all taken", blockPorts, p.first)
}

// take finds a block that no other process has.
func take() (*ports, error) {
	dir := filepath.Join(os.TempDir(), "wavehouse-test-ports")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("find a port: %w", err)
	}
	var errs []error
	for n, start := 0, rand.IntN(blocks); n < blocks; n++ {
		block := (start + n) % blocks
		file, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(block)), os.O_CREATE|os.O_RDWR, 0o666)
		if err == nil {
			if err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
				return &ports{claim: file, first: lowestPort + block*blockPorts}, nil
			}
			_ = file.Close()
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("find a port: no block of them is free: %w", errors.Join(errs...))
}
