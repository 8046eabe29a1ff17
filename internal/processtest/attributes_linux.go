package processtest

import "syscall"

// attributes has a server end with the tests, however they end; a Ctrl-C is for
// the tests.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
