package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// store is one store to record.
type store struct {
	name          string
	kill, encrypt bool
}

// encryption has a key for tests. It stays in the archive.
const encryption = `apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources: [secrets, configmaps, widgets.example.com]
  providers:
  - aescbc: {keys: [{name: one, secret: "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}]}
  - identity: {}
`

// record fills a directory with a data directory, the objects in it, and a snapshot.
func (s store) record(ctx context.Context, program, dir string, writes []write) error {
	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	// Without the grace period, a terminating namespace soon has the state in which it stays.
	args := []string{"up", "--listen=127.0.0.1:0", "--namespace-grace=0s", "--data-dir", data}
	if s.encrypt {
		name := filepath.Join(dir, "encryption.yaml")
		if err := os.WriteFile(name, []byte(encryption), 0o600); err != nil {
			return err
		}
		args = append(args, "--encryption-provider-config", name)
	}
	server, err := start(ctx, program, args, data)
	if err != nil {
		return err
	}
	defer server.stop(os.Kill)
	c, err := connect(data)
	if err != nil {
		return err
	}
	if err := c.writeAll(ctx, writes); err != nil {
		return err
	}
	lists, err := c.settled(ctx)
	if err != nil {
		return err
	}
	save := exec.CommandContext(ctx, program, "snapshot", "save", filepath.Join(dir, "snapshot"), "--kubeconfig", filepath.Join(data, "kubeconfig"))
	if out, err := save.CombinedOutput(); err != nil {
		return fmt.Errorf("kapok snapshot save: %w: %s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "objects.json"), lists, 0o600); err != nil {
		return err
	}
	signal := os.Signal(syscall.SIGTERM)
	if s.kill {
		signal = os.Kill
	}
	return server.stop(signal)
}

// server is a running program.
type server struct {
	process *os.Process
	output  bytes.Buffer  // complete when done is closed
	done    chan struct{} // closed when it has ended
}

// start runs the program until it is ready.
func start(ctx context.Context, program string, args []string, data string) (*server, error) {
	s := &server{done: make(chan struct{})}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdout, cmd.Stderr = &s.output, &s.output
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s.process = cmd.Process
	go func() {
		_ = cmd.Wait()
		close(s.done)
	}()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		// The kubeconfig is written when the server is ready.
		_, err := os.Stat(filepath.Join(data, "kubeconfig"))
		if err == nil {
			return s, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Join(err, s.stop(os.Kill))
		}
		select {
		case <-s.done:
			return nil, fmt.Errorf("%s has ended: %s", program, s.output.Bytes())
		case <-tick.C:
		}
	}
}

// stop sends a signal, and waits for the end.
func (s *server) stop(signal os.Signal) error {
	if err := s.process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-s.done
	return nil
}
