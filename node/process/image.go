package process

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	fileScheme = "file://"
	goScheme   = "go://"
	// showPullError is the time for which the reason of a failed pull is ErrImagePull, then it is ImagePullBackOff.
	showPullError = 5 * time.Second
	minBackoff    = 10 * time.Second
	maxBackoff    = 5 * time.Minute
	// buildLimit ends a build that hangs.
	buildLimit = 15 * time.Minute
	// longestBuildError is the length of the output of a failed build in a message, in bytes.
	longestBuildError = 1024
)

// ParseImage parses a mapping IMAGE=PROGRAM of an image to a program: a path, go://PACKAGE or file:///PATH.
func ParseImage(text string) (image, program string, err error) {
	image, program, ok := strings.Cut(text, "=")
	switch {
	case !ok || image == "" || program == "":
		return "", "", fmt.Errorf("%q: want IMAGE=PROGRAM, like nginx=./bin/nginx", text)
	case strings.HasPrefix(image, fileScheme), strings.HasPrefix(image, goScheme):
		return "", "", fmt.Errorf("%q: the image is a program itself", text)
	case strings.Contains(program, "://") && !strings.HasPrefix(program, fileScheme) && !strings.HasPrefix(program, goScheme):
		return "", "", fmt.Errorf("%q: want a path, %s/PATH or %sPACKAGE", text, fileScheme, goScheme)
	}
	return image, program, nil
}

// programOf returns the program that an image stands for: an absolute path, or the package of Go.
func programOf(image string, mappings map[string]string, dir string) (path, pkg string, err error) {
	program := image
	if !strings.HasPrefix(image, fileScheme) && !strings.HasPrefix(image, goScheme) {
		if program = mapped(image, mappings); program == "" {
			return "", "", fmt.Errorf("image %q is not mapped to a program: start the node with --image %s=PROGRAM, or use the image file:///PATH or go://PACKAGE", image, image)
		}
	}
	if pkg, ok := strings.CutPrefix(program, goScheme); ok {
		return "", pkg, checkPackage(pkg)
	}
	if text, ok := strings.CutPrefix(program, fileScheme); ok {
		u, err := url.PathUnescape(text)
		if err != nil || !filepath.IsAbs(u) || filepath.Clean(u) != u || strings.Contains(u, "\x00") {
			return "", "", fmt.Errorf("image %q: want %s and an absolute path without \"..\"", image, fileScheme)
		}
		return u, "", nil
	}
	if !filepath.IsAbs(program) {
		program = filepath.Join(dir, program)
	}
	return program, "", nil
}

// mapped returns the program of an image: that of its full name, or of its name without registry, tag and digest.
func mapped(image string, mappings map[string]string) string {
	if p := mappings[image]; p != "" {
		return p
	}
	name, _, _ := strings.Cut(image, "@")
	if i := strings.LastIndex(name, ":"); i > strings.LastIndex(name, "/") {
		name = name[:i]
	}
	if p := mappings[name]; p != "" {
		return p
	}
	return mappings[name[strings.LastIndex(name, "/")+1:]]
}

// checkPackage rejects what go build would not read as a package.
func checkPackage(pkg string) error {
	if pkg == "" || strings.HasPrefix(pkg, "-") || strings.HasPrefix(pkg, "/") || strings.ContainsAny(pkg, "\x00 \t\n=") || strings.Contains(pkg, "...") {
		return fmt.Errorf("image %q: want %s and a package, like %s./cmd/server", goScheme+pkg, goScheme, goScheme)
	}
	local := strings.HasPrefix(pkg, "./") || pkg == "."
	if rest, _, _ := strings.Cut(pkg, "@"); !local && strings.HasPrefix(rest, ".") || local && !filepath.IsLocal(pkg) {
		return fmt.Errorf("image %q: the package must be below the directory of the node", goScheme+pkg)
	}
	return nil
}

// A pull is the preparation of a program for the next start of a container.
type pull struct {
	running  bool
	path     string // "" if it has failed
	err      error
	at       time.Time     // of its end
	wait     time.Duration // until the next attempt after a failure
	failures int
}

// images prepares programs. Its goroutines end with the context of wait.
type images struct {
	dir      string // of packages
	output   string // for binaries
	mappings map[string]string
	changed  func(pod string)

	mu    sync.Mutex
	pulls map[pullKey]*pull
	group sync.WaitGroup
	build sync.Mutex // one build at a time: each uses all processors
}

type pullKey struct{ pod, container string }

// get returns a copy of the state of a preparation, nil if there is none.
func (i *images) get(pod, container string) *pull {
	i.mu.Lock()
	defer i.mu.Unlock()
	if p := i.pulls[pullKey{pod, container}]; p != nil {
		q := *p
		return &q
	}
	return nil
}

// used forgets a preparation whose container has been started: the next start has one of its own.
func (i *images) used(pod, container string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.pulls, pullKey{pod, container})
}

// forget forgets a pod.
func (i *images) forget(pod string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for k := range i.pulls {
		if k.pod == pod {
			delete(i.pulls, k)
		}
	}
}

// prepare begins to prepare the program of a container, and calls changed when it is ready or has failed.
func (i *images) prepare(ctx context.Context, pod string, c *corev1.Container) {
	key := pullKey{pod, c.Name}
	i.mu.Lock()
	p := i.pulls[key]
	if p != nil && p.running {
		i.mu.Unlock()
		return
	}
	if p == nil {
		p = &pull{}
		i.pulls[key] = p
	}
	p.running = true
	i.group.Add(1)
	i.mu.Unlock()
	go func() {
		defer i.group.Done()
		path, err := i.program(ctx, c)
		i.mu.Lock()
		p.running, p.path, p.err, p.at = false, path, err, time.Now()
		if err != nil {
			p.failures++
			p.wait = min(minBackoff<<min(p.failures-1, 10), maxBackoff)
		}
		i.mu.Unlock()
		i.changed(pod)
	}()
}

// program returns the path of the program of a container.
func (i *images) program(ctx context.Context, c *corev1.Container) (string, error) {
	path, pkg, err := programOf(c.Image, i.mappings, i.dir)
	if err != nil {
		return "", err
	}
	if pkg != "" {
		if path, err = i.goBuild(ctx, pkg, c.ImagePullPolicy); err != nil {
			return "", err
		}
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return "", fmt.Errorf("%s is not an executable file", path)
	}
	return path, nil
}

// goBuild builds a package. The file of a program that runs is replaced, not changed.
func (i *images) goBuild(ctx context.Context, pkg string, policy corev1.PullPolicy) (string, error) {
	i.build.Lock()
	defer i.build.Unlock()
	name := sha256.Sum256([]byte(i.dir + "\x00" + pkg))
	dir := filepath.Join(i.output, hex.EncodeToString(name[:8]))
	path := filepath.Join(dir, "program")
	if _, err := os.Stat(path); policy == corev1.PullNever {
		return path, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, buildLimit)
	defer cancel()
	args := []string{"build", "-o", path, "--", pkg}
	if strings.Contains(pkg, "@") {
		return "", fmt.Errorf("image %s%s: a version is that of go.mod", goScheme, pkg)
	}
	build := exec.CommandContext(ctx, "go", args...)
	build.Dir = i.dir
	build.WaitDelay = time.Second
	// A build moves its result to its place if the temporary directory is on the same file system.
	build.Env = append(os.Environ(), "GOTMPDIR="+dir)
	var output bytes.Buffer
	build.Stdout, build.Stderr = &output, &output
	if err := build.Run(); err != nil {
		text := strings.TrimSpace(output.String())
		if len(text) > longestBuildError {
			text = text[:longestBuildError] + "..."
		}
		return "", errors.Join(fmt.Errorf("go build %s in %s: %w", pkg, i.dir, err), errors.New(text))
	}
	return path, nil
}
