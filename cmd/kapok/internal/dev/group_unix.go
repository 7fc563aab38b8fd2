//go:build unix

package dev

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup makes a command start in a process group of its own.
func ownGroup(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// terminate asks the processes of a group to end. They may have ended already.
func terminate(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGTERM) }

// kill ends the processes of a group. They may have ended already.
func kill(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
