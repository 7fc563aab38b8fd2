//go:build linux || darwin

package proc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// tetherVariable says that a shim has a tether.
const tetherVariable = "KAPOK_PROCESS_TETHER"

// called says that the program has called Main: without it, a shim would be a second instance of the program.
var called atomic.Bool

// Main runs a shim, and does not return, if this process is one; else it returns at once. A program that uses
// this package calls it first in its function main.
func Main() {
	if dir := os.Getenv(shimVariable); dir != "" {
		os.Exit(runShim(dir))
	}
	called.Store(true)
}

// Options configure a Runtime. Only Dir is required.
type Options struct {
	// Dir is the directory of the runs, absolute.
	Dir string
	// Tether ends all containers when this process ends, for whatever reason.
	Tether bool
	// Changed is called when a run of a pod has ended. It must not block.
	Changed func(pod string)
}

// A Runtime starts and watches runs. Make one with Open. It is safe for concurrent use.
type Runtime struct {
	options    Options
	executable string
	held       *os.File // the lock of the directory
	tether     *os.File // the end that this process holds
	tethered   *os.File // the end for shims

	mu     sync.Mutex
	runs   map[string][]*live // by pod, by container and attempt
	closed bool
	group  sync.WaitGroup
}

// A live is a run with what is known of its shim.
type live struct {
	Run
	done chan struct{} // is closed when Exit is set
}

// Open returns a Runtime with the runs in a directory that another one has left behind. It fails if another process uses
// the directory.
func Open(o Options) (*Runtime, error) {
	if !called.Load() {
		return nil, ErrMain
	}
	if o.Changed == nil {
		o.Changed = func(string) {}
	}
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	r := &Runtime{options: o, executable: executable, runs: map[string][]*live{}}
	if r.held, err = tryLock(filepath.Join(o.Dir, "lock")); err != nil {
		return nil, fmt.Errorf("%s is in use by another process: %w", o.Dir, err)
	}
	if o.Tether {
		if r.tethered, r.tether, err = os.Pipe(); err != nil {
			r.held.Close()
			return nil, err
		}
	}
	if err := r.adopt(); err != nil {
		r.held.Close()
		return nil, err
	}
	return r, nil
}

// adopt reads the runs in the directory, and watches those that live.
func (r *Runtime) adopt() error {
	all, err := list(r.options.Dir)
	if err != nil {
		return err
	}
	for _, id := range all {
		dir := id.dir(r.options.Dir)
		run, err := readRun(dir)
		if errors.Is(err, fs.ErrNotExist) { // its start had not begun
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", dir, err)
		}
		l := &live{Run: run, done: make(chan struct{})}
		r.insertLocked(l) // before the first goroutine
		if run.Exit != nil {
			close(l.done)
		}
	}
	for _, runs := range r.runs {
		for _, l := range runs {
			if l.Exit == nil {
				r.group.Go(func() { r.watch(l, nil) })
			}
		}
	}
	return nil
}

func (r *Runtime) insertLocked(l *live) {
	runs := append(r.runs[l.ID.Pod], l)
	slices.SortFunc(runs, func(a, b *live) int {
		return cmp.Or(cmp.Compare(a.ID.Container, b.ID.Container), a.ID.Attempt-b.ID.Attempt)
	})
	r.runs[l.ID.Pod] = runs
}

// tryLock opens a file and locks it, as long as a process has the file open.
func tryLock(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Pods returns the UIDs of the pods that have runs.
func (r *Runtime) Pods() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for pod := range r.runs {
		all = append(all, pod)
	}
	return all
}

// Runs returns the runs of a pod, sorted by container and attempt: of each container the last one and the one before.
func (r *Runtime) Runs(pod string) []Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Run
	for _, l := range r.runs[pod] {
		all = append(all, l.Run)
	}
	return all
}

// PodDir returns a directory for further files of a pod, which Remove removes. It has no name that a container can have.
func (r *Runtime) PodDir(pod string) string { return filepath.Join(r.options.Dir, "pods", pod, "_pod") }

// LogPath returns the path of the current log file of a run.
func (r *Runtime) LogPath(id ID) string { return filepath.Join(id.dir(r.options.Dir), "log") }

// startLimit is the time in which a shim starts its container.
const startLimit = time.Minute

// Start starts a run. The attempt must be later than all others of the container, and these must have ended. A program that
// cannot be executed is a run that has ended with the reason StartError, not an error of Start.
func (r *Runtime) Start(ctx context.Context, s Spec) (Run, error) {
	if err := s.ID.validate(); err != nil {
		return Run{}, err
	}
	if err := r.forgetOld(s.ID); err != nil {
		return Run{}, err
	}
	s.Env = append(slices.Clone(s.Env), Marker+"="+s.ID.String())
	dir := s.ID.dir(r.options.Dir)
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return Run{}, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil { // fails if there was such an attempt
		return Run{}, err
	}
	lock, err := tryLock(filepath.Join(dir, "lock"))
	if err != nil {
		return Run{}, err
	}
	defer lock.Close() // again, after startShim
	if err := errors.Join(writeFile(filepath.Join(dir, "spec.json"), &s), syncDir(filepath.Dir(dir))); err != nil {
		return Run{}, errors.Join(err, os.RemoveAll(dir))
	}
	return r.startShim(ctx, s, dir, lock)
}

// forgetOld checks that an attempt may start, and removes those before the last one.
func (r *Runtime) forgetOld(id ID) error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return net.ErrClosed
	}
	var old []*live
	for _, l := range r.runs[id.Pod] {
		if l.ID.Container == id.Container {
			old = append(old, l)
		}
	}
	for _, l := range old {
		if l.Exit == nil || l.ID.Attempt >= id.Attempt {
			r.mu.Unlock()
			return fmt.Errorf("start %s: attempt %d runs or has run", id, l.ID.Attempt)
		}
	}
	var gone []*live
	if len(old) > 1 {
		gone = old[:len(old)-1]
		r.runs[id.Pod] = slices.DeleteFunc(r.runs[id.Pod], func(l *live) bool { return slices.Contains(gone, l) })
	}
	r.mu.Unlock()
	for _, l := range gone {
		if err := os.RemoveAll(l.ID.dir(r.options.Dir)); err != nil {
			return err
		}
	}
	return nil
}

func (r *Runtime) startShim(ctx context.Context, s Spec, dir string, lock *os.File) (Run, error) {
	ready, report, err := os.Pipe()
	if err != nil {
		return Run{}, err
	}
	defer ready.Close()
	shim := exec.Command(r.executable)
	shim.Args = []string{"kapok-container", s.ID.String()}
	shim.Env = []string{shimVariable + "=" + dir}
	shim.Dir = "/"
	shim.ExtraFiles = []*os.File{lock, report}
	if r.tethered != nil {
		shim.ExtraFiles = append(shim.ExtraFiles, r.tethered)
		shim.Env = append(shim.Env, tetherVariable+"=1")
	}
	shim.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = shim.Start()
	report.Close()
	lock.Close() // the shim has it
	if err != nil {
		return Run{}, errors.Join(fmt.Errorf("start a shim: %w", err), os.RemoveAll(dir))
	}
	l := &live{Run: Run{Spec: s}, done: make(chan struct{})}
	// The end of the context, of the program or of the time ends a start that hangs.
	stop := context.AfterFunc(ctx, func() { shim.Process.Kill() })
	defer stop()
	limit := time.AfterFunc(startLimit, func() { shim.Process.Kill() })
	defer limit.Stop()
	var answer response
	reported := json.NewDecoder(ready).Decode(&answer)
	if reported == nil && answer.Error == "" {
		if l.Run, err = readRun(dir); err != nil {
			shim.Process.Kill()
		}
	}
	r.mu.Lock()
	r.insertLocked(l)
	r.group.Add(1)
	r.mu.Unlock()
	watch := func() {
		defer r.group.Done()
		r.watch(l, shim)
	}
	if reported != nil || answer.Error != "" || err != nil {
		watch() // the shim has ended or ends
		r.mu.Lock()
		defer r.mu.Unlock()
		return l.Run, ctx.Err()
	}
	run := l.Run
	go watch()
	return run, nil
}

// watch waits for the end of a run, and notes how it has ended. shim is nil for one that another process has started.
func (r *Runtime) watch(l *live, shim *exec.Cmd) {
	dir := l.ID.dir(r.options.Dir)
	if shim != nil {
		_ = shim.Wait() // what it reports is in its files
	}
	lock := waitLock(dir)
	var e Exit
	found, err := readFile(filepath.Join(dir, "exit.json"), &e)
	if err != nil || !found {
		var s started
		_, _ = readFile(filepath.Join(dir, "started.json"), &s)
		killMarked(l.ID, s)
		e = Exit{Code: 137, Time: time.Now(), Reason: Lost, Message: "The process that watched the container has been killed"}
		_ = writeFile(filepath.Join(dir, "exit.json"), &e) // else the next program finds the same
	}
	if lock != nil {
		lock.Close()
	}
	r.mu.Lock()
	l.Exit = &e
	r.mu.Unlock()
	close(l.done)
	r.options.Changed(l.ID.Pod)
}

// waitLock waits for the end of a shim, and returns its lock; nil if the directory is gone.
func waitLock(dir string) *os.File {
	for {
		lock, err := tryLock(filepath.Join(dir, "lock"))
		if err == nil {
			return lock
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		// The connection lasts as long as the shim. It is refused at its start and at its end.
		if c, err := dial(dir); err == nil {
			if send(c, request{Do: "watch"}) == nil {
				_, _ = io.Copy(io.Discard, c)
			}
			c.Close()
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// running returns the directory of a run that has not ended.
func (r *Runtime) running(id ID) (dir string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.runs[id.Pod] {
		if l.ID == id && l.Exit == nil {
			return id.dir(r.options.Dir), nil
		}
	}
	return "", ErrNotRunning
}

// ask sends a request to the shim of a run, and returns the first response.
func (r *Runtime) ask(id ID, q request, files ...*os.File) (*net.UnixConn, response, error) {
	dir, err := r.running(id)
	if err != nil {
		return nil, response{}, err
	}
	c, err := dial(dir)
	if err != nil {
		return nil, response{}, fmt.Errorf("%w: %w", ErrNotRunning, err)
	}
	var p response
	if err = send(c, q, files...); err == nil {
		_, err = receive(c, &p)
	}
	if err != nil {
		c.Close()
		return nil, p, fmt.Errorf("%w: %w", ErrNotRunning, err)
	}
	return c, p, nil
}

// Signal sends a signal to the first process of a container.
func (r *Runtime) Signal(id ID, signal syscall.Signal) error {
	c, _, err := r.ask(id, request{Do: "signal", Signal: int(signal)})
	if err == nil {
		c.Close()
	}
	return err
}

// Terminate sends the signal TERM to the first process of a container.
func (r *Runtime) Terminate(id ID) error { return r.Signal(id, syscall.SIGTERM) }

// Kill kills a container.
func (r *Runtime) Kill(id ID) error { return r.Signal(id, syscall.SIGKILL) }

// Remove removes the files of a pod whose runs have all ended.
func (r *Runtime) Remove(pod string) error {
	if err := (ID{Pod: pod, Container: "c"}).validate(); err != nil {
		return err
	}
	r.mu.Lock()
	for _, l := range r.runs[pod] {
		if l.Exit == nil {
			r.mu.Unlock()
			return fmt.Errorf("container %s runs", l.ID)
		}
	}
	delete(r.runs, pod)
	r.mu.Unlock()
	return os.RemoveAll(filepath.Join(r.options.Dir, "pods", pod))
}

// Close ends all containers: by the signal TERM, and after a grace period by KILL.
func (r *Runtime) Close(grace time.Duration) {
	r.mu.Lock()
	r.closed = true
	var all []ID
	for _, runs := range r.runs {
		for _, l := range runs {
			if l.Exit == nil {
				all = append(all, l.ID)
			}
		}
	}
	r.mu.Unlock()
	for _, id := range all {
		_ = r.Terminate(id) // it has ended
	}
	done := make(chan struct{})
	go func() {
		r.group.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(grace):
		for _, id := range all {
			_ = r.Kill(id)
		}
		<-done
	}
	if r.tether != nil {
		r.tether.Close()
		r.tethered.Close()
	}
	r.held.Close()
}
