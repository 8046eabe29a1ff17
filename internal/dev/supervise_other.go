//go:build !linux

package dev

import "syscall"

// ownGroup keeps a Ctrl-C from reaching the process. It ends with this one
// because its standard input does.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
