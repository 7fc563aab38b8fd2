package dev

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// patience is how long the operator has to end after it was asked to.
const patience = 10 * time.Second

// An operator is the process of the project, with its children: they are a process group of their
// own, so that a signal of the terminal reaches them only through this package.
type operator struct {
	process  *os.Process
	ended    chan struct{}    // closed when the process has ended
	state    *os.ProcessState // valid after ended
	reported bool             // its end
}

// checkMain returns an error unless the operator can be built and run: its package is a main one,
// and there is a debugger if there is to be one. A package that cannot be read may become one.
func (d *dev) checkMain(ctx context.Context) error {
	if name, err := d.command(ctx, "go", "list", "-f", "{{.Name}}", d.Main).Output(); err == nil && strings.TrimSpace(string(name)) != "main" {
		return fmt.Errorf("--main %s is not one main package: want a path such as ./cmd", d.Main)
	}
	if _, err := exec.LookPath(debugger); d.DebugPort != 0 && err != nil {
		return errors.New("delve is not installed: run go install github.com/go-delve/delve/cmd/dlv@latest")
	}
	return nil
}

// debugger is the program of Delve.
const debugger = "dlv"

// build builds the main package, and returns the path of the program and a hash of it.
func (d *dev) build(ctx context.Context) (program, sum string, err error) {
	program = filepath.Join(d.Dir, "operator")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	fresh := program + ".new"
	args := []string{"build", "-o", fresh}
	if d.DebugPort != 0 {
		args = append(args, "-gcflags=all=-N -l")
	}
	if out, err := d.command(ctx, "go", append(args, d.Main)...).CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("build the operator:\n%s", cmp.Or(string(out), err.Error()))
	}
	if sum, err = hash(fresh); err != nil {
		return "", "", err
	}
	return program, sum, nil
}

func hash(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return string(h.Sum(nil)), nil
}

// start runs the program that build has made.
func (d *dev) start(ctx context.Context, program string, env []string) (*operator, error) {
	if err := os.Rename(program+".new", program); err != nil {
		return nil, err
	}
	args := d.Args
	name := program
	if d.DebugPort != 0 {
		name, args = debugger, append([]string{
			"exec", program, "--headless", "--accept-multiclient", "--continue", "--api-version=2",
			fmt.Sprintf("--listen=127.0.0.1:%d", d.DebugPort), "--",
		}, args...)
	}
	c := d.command(context.WithoutCancel(ctx), name, args...)
	c.Env = append(os.Environ(), env...)
	out := d.lines.of("operator")
	c.Stdout, c.Stderr = out, out
	c.WaitDelay = time.Second // for children that keep the output open
	ownGroup(c)
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("start the operator: %w", err)
	}
	o := &operator{process: c.Process, ended: make(chan struct{})}
	go func() {
		_ = c.Wait() // the state tells how it has ended
		o.state = c.ProcessState
		kill(o.process) // children
		out.flush()
		close(o.ended)
	}()
	return o, nil
}

// end asks the operator to end, if there is one, and waits for it: for some time, or until it is to
// hurry.
func (o *operator) end(hurry <-chan struct{}) {
	if !o.running() {
		return
	}
	o.reported = true
	terminate(o.process)
	select {
	case <-o.ended:
		return
	case <-hurry:
	case <-time.After(patience):
	}
	kill(o.process)
	<-o.ended
}

// running reports whether there is an operator that has not ended.
func (o *operator) running() bool {
	if o == nil {
		return false
	}
	select {
	case <-o.ended:
		return false
	default:
		return true
	}
}

// command returns a command in the directory of the project.
func (d *dev) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = d.Project
	return c
}
