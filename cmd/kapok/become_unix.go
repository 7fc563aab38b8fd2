//go:build unix

package main

import "syscall"

// become replaces this process by a program, so that signals reach it. It returns only if that
// fails.
func become(line, env []string) error { return syscall.Exec(line[0], line, env) }
