//go:build unix

package simulated

import (
	"errors"
	"io"
	"math"
	"os/exec"
	"syscall"

	"github.com/creack/pty"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

// setUser lets a command run as another user, which takes the permissions of root.
func (c *Commands) setUser(run *exec.Cmd) error {
	if c.User == nil && c.Group == nil {
		return nil
	}
	credential := &syscall.Credential{Uid: uint32(syscall.Getuid()), Gid: uint32(syscall.Getgid())}
	for _, set := range []struct {
		from *int64
		to   *uint32
	}{{c.User, &credential.Uid}, {c.Group, &credential.Gid}} {
		if set.from == nil {
			continue
		}
		if *set.from < 0 || *set.from > math.MaxInt32 {
			return errors.New("runAsUser and runAsGroup must be between 0 and 2147483647")
		}
		*set.to = uint32(*set.from)
	}
	run.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	return nil
}

// runInTerminal runs a command in a terminal.
func runInTerminal(run *exec.Cmd, in io.Reader, out io.Writer, sizes <-chan remotecommand.TerminalSize) error {
	terminal, err := pty.Start(run)
	if err != nil {
		return err
	}
	defer terminal.Close()
	if in != nil {
		go func() { _, _ = io.Copy(terminal, in) }() // ends with the connection
	}
	if sizes != nil {
		go func() { // ends with the connection
			for size := range sizes {
				_ = pty.Setsize(terminal, &pty.Winsize{Rows: size.Height, Cols: size.Width})
			}
		}()
	}
	_, _ = io.Copy(out, terminal) // until the last process has closed the terminal, which is an error on Linux
	return run.Wait()
}
