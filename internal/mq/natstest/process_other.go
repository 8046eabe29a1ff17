//go:build !linux

package natstest

import "syscall"

// attributes leaves a Ctrl-C to the tests.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
