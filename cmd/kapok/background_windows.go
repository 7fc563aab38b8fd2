package main

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// inBackground makes a process independent of the console of its parent.
func inBackground() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.DETACHED_PROCESS}
}
