//go:build unix

package main

import "syscall"

// inBackground makes a process independent of the terminal of its parent.
func inBackground() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
