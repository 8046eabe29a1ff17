//go:build !linux

package processtest

import "syscall"

// attributes leaves a Ctrl-C to the tests.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
