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
	fileScheme     = "file://"
	goScheme       = "go://"
	archiveScheme  = "archive://"
	registryScheme = "registry://"
	// showPullError is the time for which the reason of a failed pull is ErrImagePull, then it is
	// ImagePullBackOff.
	showPullError = 5 * time.Second
	minBackoff    = 10 * time.Second
	maxBackoff    = 5 * time.Minute
	// buildLimit ends a build that hangs, and pullLimit the pull of an image.
	buildLimit = 15 * time.Minute
	pullLimit  = time.Hour
	// longestBuildError is the length of the output of a failed build in a message, in bytes.
	longestBuildError = 1024
)

// programSchemes are the beginnings of programs that are not paths, and programForms those programs
// as messages have them.
var (
	programSchemes = []string{fileScheme, goScheme, archiveScheme, registryScheme}
	programForms   = []string{fileScheme + "/PATH", goScheme + "PACKAGE", archiveScheme + "PATH", registryScheme + "REFERENCE"}
)

// ProgramForms returns the forms of a program that is not a path, for the help of a command.
func ProgramForms() string {
	last := len(programForms) - 1
	return strings.Join(programForms[:last], ", ") + " or " + programForms[last]
}

// hasScheme reports whether a text has one of programSchemes.
func hasScheme(text string) bool {
	return slices.ContainsFunc(programSchemes, func(s string) bool { return strings.HasPrefix(text, s) })
}

// anyImage is mapped to the program of all images that have none.
const anyImage = "*"

// ParseImage parses a mapping IMAGE=PROGRAM of an image to a program: a path, file:///PATH,
// go://PACKAGE, archive://PATH for the file of an OCI image, or registry://REFERENCE; registry://
// alone is the image's own name. The image * stands for all that have no mapping.
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

// A program is what an image stands for: one of its fields is set.
type program struct {
	path      string // of a file, absolute
	pkg       string // a package of Go
	archive   string // of an OCI image, absolute
	reference string // of an OCI image in a registry
}

// programOf returns the program that an image stands for.
func programOf(image string, mapping func(image string) string, dir string) (program, error) {
	text := image
	if !hasScheme(image) {
		if text = mapped(image, mapping); text == "" {
			return program{}, fmt.Errorf("image %q is not mapped to a program: map it with \"kapok image set %s=PROGRAM\", where PROGRAM is a path, %s",
				image, image, ProgramForms())
		}
	}
	if pkg, ok := strings.CutPrefix(text, goScheme); ok {
		return program{pkg: pkg}, checkPackage(pkg)
	}
	if reference, ok := strings.CutPrefix(text, registryScheme); ok {
		if reference == "" {
			reference = image
		}
		if hasScheme(reference) || strings.ContainsFunc(reference, unicode.IsSpace) {
			return program{}, fmt.Errorf("image %q: want %sREFERENCE", image, registryScheme)
		}
		return program{reference: reference}, nil
	}
	if escaped, ok := strings.CutPrefix(text, fileScheme); ok {
		u, err := url.PathUnescape(escaped)
		if err != nil || !filepath.IsAbs(u) || filepath.Clean(u) != u || strings.Contains(u, "\x00") {
			return program{}, fmt.Errorf("image %q: want %s and an absolute path without \"..\"", image, fileScheme)
		}
		return program{path: u}, nil
	}
	path, isArchive := strings.CutPrefix(text, archiveScheme)
	if path == "" || strings.Contains(path, "\x00") || text == image && isArchive && !filepath.IsAbs(path) && !filepath.IsLocal(path) {
		return program{}, fmt.Errorf("image %q: want a path that is absolute, or below the directory of the node", image)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	if isArchive {
		return program{archive: path}, nil
	}
	return program{path: path}, nil
}

// mapped returns the program of an image: that of its full name, of its name without tag and
// digest, of the last part of this name, or that of all images; "" if there is none.
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
	path     string // of the program, or of the root directory of image; "" if it has failed
	image    *Image // nil if the program is not that of an OCI image
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
	store    ImageStore        // nil: none
	changed  func(pod string)
	// secrets returns the Secrets of the imagePullSecrets of a pod.
	secrets func(ctx context.Context, pod *corev1.Pod) []corev1.Secret
	event   func(pod *corev1.Pod, container, reason, message string)

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

// mapping returns the program to which an image is mapped by this name, "" if it is not. A mapping
// of the options replaces that of an object.
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

// prepare begins to prepare the program of a container, and calls changed when it is ready or has
// failed.
func (i *images) prepare(ctx context.Context, pod *corev1.Pod, c *corev1.Container) {
	key := pullKey{string(pod.UID), c.Name}
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
		path, image, err := i.program(ctx, pod, c)
		i.mu.Lock()
		p.running, p.path, p.image, p.err, p.at = false, path, image, err, time.Now()
		if err != nil {
			p.failures++
			p.wait = min(minBackoff<<min(p.failures-1, 10), maxBackoff)
		}
		if err != nil && set != i.set { // it may have used the mappings before
			p.again()
		}
		i.mu.Unlock()
		i.changed(key.pod)
	}()
}

// program returns the path of the program of a container, or the OCI image that has it, with its
// directory.
func (i *images) program(ctx context.Context, pod *corev1.Pod, c *corev1.Container) (string, *Image, error) {
	p, err := programOf(c.Image, i.mapping, i.dir)
	if err != nil {
		return "", nil, err
	}
	if p.archive != "" || p.reference != "" {
		image, err := i.pull(ctx, pod, c, p)
		if err != nil {
			return "", nil, err
		}
		return image.Root, image, nil
	}
	if p.pkg != "" {
		if p.path, err = i.goBuild(ctx, p.pkg, c.ImagePullPolicy); err != nil {
			return "", nil, err
		}
	}
	return p.path, nil, checkProgram(p.path)
}

// checkProgram returns an error for a file that cannot be executed.
func checkProgram(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return fmt.Errorf("%s is not an executable file", path)
	}
	return nil
}

// pull returns an OCI image.
func (i *images) pull(ctx context.Context, pod *corev1.Pod, c *corev1.Container, p program) (*Image, error) {
	if i.store == nil {
		return nil, errors.New("this node has no store for OCI images")
	}
	ctx, cancel := context.WithTimeout(ctx, pullLimit)
	defer cancel()
	r := ImageRequest{Archive: p.archive, Reference: p.reference, Policy: c.ImagePullPolicy}
	if p.reference != "" {
		r.Secrets = i.secrets(ctx, pod)
	}
	begin, pulls := time.Now(), false
	r.Pulling = func() {
		pulls = true
		i.event(pod, c.Name, "Pulling", fmt.Sprintf("Pulling image %q", c.Image))
	}
	image, err := i.store.Pull(ctx, r)
	if err != nil {
		return nil, err
	}
	message := fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", c.Image)
	if took := time.Since(begin).Truncate(time.Millisecond); pulls {
		message = fmt.Sprintf("Successfully pulled image %q in %v (%v including waiting). Image size: %d bytes.", c.Image, took, took, image.Size)
	}
	i.event(pod, c.Name, "Pulled", message)
	return image, nil
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
