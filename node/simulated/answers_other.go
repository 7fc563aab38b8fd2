//go:build !unix

package simulated

import (
	"errors"
	"io"
	"os/exec"

	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

func (c *Commands) setUser(*exec.Cmd) error {
	if c.User == nil && c.Group == nil {
		return nil
	}
	return errors.New("runAsUser and runAsGroup are not supported on this system")
}

func runInTerminal(*exec.Cmd, io.Reader, io.Writer, <-chan remotecommand.TerminalSize) error {
	return errors.New("terminals are not supported on this system")
}
