package main

import (
	"errors"
	"os"
	"os/exec"
)

// become runs a program, and ends this process as it ends. It returns only if that fails.
func become(line, env []string) error {
	c := exec.Command(line[0], line[1:]...)
	c.Stdin, c.Stdout, c.Stderr, c.Env = os.Stdin, os.Stdout, os.Stderr, env
	ended := &exec.ExitError{}
	switch err := c.Run(); {
	case err == nil:
		os.Exit(0)
	case errors.As(err, &ended):
		os.Exit(ended.ExitCode())
	default:
		return err
	}
	return nil
}
