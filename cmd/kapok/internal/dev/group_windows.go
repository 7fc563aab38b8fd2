package dev

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup makes a command start in a process group of its own.
func ownGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// terminate ends a process: there is no way to ask it.
func terminate(p *os.Process) { kill(p) }

// kill ends a process, which may have ended already.
func kill(p *os.Process) { _ = p.Kill() }
