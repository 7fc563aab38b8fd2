package process

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

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

// programSchemes are the beginnings of programs that are not paths, and programForms those programs as messages have them.
var (
	programSchemes = []string{fileScheme, goScheme}
	programForms   = []string{fileScheme + "/PATH", goScheme + "PACKAGE"}
)

// ProgramForms returns the forms of a program that is not a path, for the help of a command.
func ProgramForms() string { return strings.Join(programForms, " or ") }

// hasScheme reports whether a text has one of programSchemes.
func hasScheme(text string) bool {
	return slices.ContainsFunc(programSchemes, func(s string) bool { return strings.HasPrefix(text, s) })
}

// anyImage is mapped to the program of all images that have none.
const anyImage = "*"

// ParseImage parses a mapping IMAGE=PROGRAM of an image to a program: a path, go://PACKAGE or file:///PATH. The image * stands for all that
// have no mapping.
func ParseImage(text string) (image, program string, err error) {
	image, program, ok := strings.Cut(text, "=")
	switch {
	case !ok || image == "" || program == "":
		return "", "", fmt.Errorf("%q: want IMAGE=PROGRAM, like nginx=./bin/nginx", text)
	case hasScheme(image):
		return "", "", fmt.Errorf("%q: the image is a program itself", text)
	case strings.ContainsFunc(image, unicode.IsSpace) || strings.Contains(image, "://"):
		return "", "", fmt.Errorf("%q: the image must be a name without spaces and scheme", text)
	case strings.Contains(program, "://") && !hasScheme(program):
		return "", "", fmt.Errorf("%q: want a path, %s", text, strings.Join(programForms, ", "))
	}
	return image, program, nil
}

// programOf returns the program that an image stands for: an absolute path, or the package of Go.
func programOf(image string, mapping func(image string) string, dir string) (path, pkg string, err error) {
	program := image
	if !hasScheme(image) {
		if program = mapped(image, mapping); program == "" {
			return "", "", fmt.Errorf("image %q is not mapped to a program: map it with \"kapok image set %s=PROGRAM\", where PROGRAM is a path, %s",
				image, image, ProgramForms())
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

// mapped returns the program of an image: that of its full name, of its name without tag and digest, of the last part of this name, or
// that of all images; "" if there is none.
func mapped(image string, mapping func(image string) string) string {
	name, _, _ := strings.Cut(image, "@")
	if i := strings.LastIndex(name, ":"); i > strings.LastIndex(name, "/") {
		name = name[:i]
	}
	for _, key := range []string{image, name, name[strings.LastIndex(name, "/")+1:], anyImage} {
		if p := mapping(key); p != "" {
			return p
		}
	}
	return ""
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
	dir      string            // of packages
	output   string            // for binaries
	mappings map[string]string // those of the options
	changed  func(pod string)

	mu      sync.Mutex
	pulls   map[pullKey]*pull
	objects map[string]string // the mappings of objects
	set     int               // how often they have been set
	group   sync.WaitGroup
	build   sync.Mutex // one build at a time: each uses all processors
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

// mapping returns the program to which an image is mapped by this name, "" if it is not. A mapping of the options replaces that of an object.
func (i *images) mapping(image string) string {
	if p := i.mappings[image]; p != "" {
		return p
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.objects[image]
}

// setObjects replaces the mappings of objects, and lets failed preparations begin again at once.
func (i *images) setObjects(all map[string]string) {
	i.mu.Lock()
	if maps.Equal(all, i.objects) {
		i.mu.Unlock()
		return
	}
	i.objects = all
	i.set++
	pods := map[string]bool{}
	for key, p := range i.pulls {
		if !p.running && p.err != nil {
			p.again()
			pods[key.pod] = true
		}
	}
	i.mu.Unlock()
	for pod := range pods {
		i.changed(pod)
	}
}

// again lets a preparation that has failed begin again at once.
func (p *pull) again() { p.at, p.wait, p.failures = time.Time{}, 0, 0 }

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
	set := i.set
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
		if err != nil && set != i.set { // it may have used the mappings before
			p.again()
		}
		i.mu.Unlock()
		i.changed(pod)
	}()
}

// program returns the path of the program of a container.
func (i *images) program(ctx context.Context, c *corev1.Container) (string, error) {
	path, pkg, err := programOf(c.Image, i.mapping, i.dir)
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
