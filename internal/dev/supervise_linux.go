package dev

import "syscall"

// ownGroup keeps a Ctrl-C from reaching the process, and has the kernel end it
// when this process dies, however that happens.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
