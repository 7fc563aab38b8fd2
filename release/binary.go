package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
)

// binary is the program for one target.
type binary struct {
	target
	path string // of the file
}

// buildArguments are the arguments of go build, without the output and the package. Neither
// directories nor the state of git are in the binary: a build of another clone of the commit has
// the same bytes.
func (r *release) buildArguments() []string {
	return []string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid= -X main.released=" + r.version}
}

// buildEnvironment returns the variables of go build that the output depends on. They replace those
// of the user, and their values are not empty, as an empty variable gives way to the user's go env
// -w.
func buildEnvironment(t target) []string {
	return []string{"CGO_ENABLED=0", "GOOS=" + t.os, "GOARCH=" + t.arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=-mod=readonly", "GOWORK=off"}
}

// buildBinaries builds the program for each target, one after the other: the compiler uses all
// processors.
func (r *release) buildBinaries(ctx context.Context) error {
	for _, t := range r.targets {
		b, err := r.build(ctx, t)
		if err != nil {
			return err
		}
		r.binaries = append(r.binaries, b)
	}
	return nil
}

func (r *release) build(ctx context.Context, t target) (binary, error) {
	b := binary{t, filepath.Join(r.scratch, t.os+"-"+t.arch, "kapok"+t.exe())}
	c := exec.CommandContext(ctx, "go", append(r.buildArguments(), "-o", b.path, r.pkg)...)
	c.Dir = r.module
	c.Env = append(os.Environ(), buildEnvironment(t)...)
	if out, err := c.CombinedOutput(); err != nil {
		return binary{}, fmt.Errorf("build for %s: %w\n%s", t, err, bytes.TrimSpace(out))
	}
	return b, nil
}

// host returns a binary that this machine can run. It is built if it is not part of the release.
func (r *release) host(ctx context.Context) (binary, error) {
	if r.own != nil {
		return *r.own, nil
	}
	t := target{runtime.GOOS, runtime.GOARCH}
	i := slices.IndexFunc(r.binaries, func(b binary) bool { return b.target == t })
	if i >= 0 {
		r.own = &r.binaries[i]
		return *r.own, nil
	}
	b, err := r.build(ctx, t)
	if err == nil {
		r.own = &b
	}
	return b, err
}

// ask runs the program on this machine, and returns its output. The program sees an empty home
// directory and the time of the release.
func (r *release) ask(ctx context.Context, args ...string) ([]byte, error) {
	b, err := r.host(ctx)
	if err != nil {
		return nil, err
	}
	home, err := os.MkdirTemp(r.scratch, "home-")
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, b.path, args...)
	c.Dir = home
	c.Env = []string{"HOME=" + home, "USERPROFILE=" + home, "PATH=" + os.Getenv("PATH"), "SYSTEMROOT=" + os.Getenv("SYSTEMROOT"), r.epoch()}
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("kapok %s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

// epoch is the time of the release as the variable that other programs read.
func (r *release) epoch() string { return fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.time.Unix()) }
