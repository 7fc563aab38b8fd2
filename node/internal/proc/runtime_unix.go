//go:build linux || darwin

package proc

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
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
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kapok-dev/kapok/node/internal/beneath"
	"github.com/kapok-dev/kapok/node/internal/cgroup"
)

// tetherVariable says that a shim has a tether.
const tetherVariable = "KAPOK_PROCESS_TETHER"

// mountVariable is set in the environment of a process with mounts of its own, to the file for
// /etc/hosts.
const mountVariable = "KAPOK_PROCESS_HOSTS"

// probeVariable is set in the environment of a process that only enters a root directory, to a
// directory like that of a run.
const probeVariable = "KAPOK_PROCESS_PROBE"

// called says that the program has called Main: without it, a shim would be a second instance of
// the program.
var called atomic.Bool

// Main runs a shim, and does not return, if this process is one; else it returns at once. A program
// that uses this package calls it first in its function main.
func Main() {
	if file := os.Getenv(mountVariable); file != "" {
		os.Unsetenv(mountVariable)
		if err := mountHosts(file); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if os.Getenv(shimVariable) == "" { // the process of Mounts
			os.Exit(0)
		}
	}
	if code, is := becomeInside(); is {
		os.Exit(code)
	}
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
	// Lost is called when the network of pods is gone, because the process that has it was killed. The
	// containers in it are killed when it returns.
	Lost func()
}

// A Runtime starts and watches runs. Make one with Open. It is safe for concurrent use.
type Runtime struct {
	options    Options
	executable string
	root       *os.Root // of Options.Dir
	patience   time.Duration
	held       *os.File // the lock of the directory
	tether     *os.File // the end that this process holds
	tethered   *os.File // the end for shims

	groups *cgroup.Parent // nil without Limit

	launching sync.Mutex // is not taken while mu is held
	launched  bool       // the launcher runs
	watchers  sync.WaitGroup

	mu     sync.Mutex
	runs   map[string][]*live // by pod, by container and attempt
	closed bool
	group  sync.WaitGroup
}

// A live is a run with what is known of its shim.
type live struct {
	Run
	begin started
	done  chan struct{} // is closed when Exit is set
}

// Open returns a Runtime with the runs in a directory that another one has left behind. It fails if
// another process uses the directory.
func Open(o Options) (*Runtime, error) {
	if !called.Load() {
		return nil, ErrMain
	}
	if o.Changed == nil {
		o.Changed = func(string) {}
	}
	if o.Lost == nil {
		o.Lost = func() {}
	}
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	r := &Runtime{options: o, executable: executable, runs: map[string][]*live{}, patience: answerLimit}
	if r.root, err = os.OpenRoot(o.Dir); err != nil {
		return nil, err
	}
	if r.held, err = tryLock(r.root, "lock", true); err != nil {
		r.root.Close()
		return nil, fmt.Errorf("%s is in use by another process: %w", o.Dir, err)
	}
	if o.Tether {
		r.tethered, r.tether, err = os.Pipe()
	}
	if err == nil {
		err = r.adopt()
	}
	if err != nil {
		r.release()
		return nil, err
	}
	return r, nil
}

// release closes the files of the Runtime.
func (r *Runtime) release() {
	if r.tether != nil {
		r.tether.Close()
		r.tethered.Close()
	}
	r.held.Close()
	r.root.Close()
}

// adopt reads the runs in the directory, and watches those that live.
func (r *Runtime) adopt() error {
	all, err := list(r.root)
	if err != nil {
		return err
	}
	for _, id := range all {
		run, err := readRun(r.root, id)
		if errors.Is(err, fs.ErrNotExist) || err == nil && r.neverBegan(&run) {
			if err := beneath.RemoveAll(r.root, id.dir()); err != nil {
				return err
			}
			continue
		}
		// One whose files are damaged runs until its shim ends, and then is lost.
		l := &live{Run: run, done: make(chan struct{})}
		_, _ = readFile(r.root, filepath.Join(id.dir(), "started.json"), &l.begin)
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

// neverBegan reports whether the program has ended between the record of a run and the start of its
// shim: its attempt is free.
func (r *Runtime) neverBegan(run *Run) bool {
	if !run.Started.IsZero() || run.Exit != nil {
		return false
	}
	lock, err := tryLock(r.root, filepath.Join(run.ID.dir(), "lock"), false)
	if err != nil {
		return false // the shim starts
	}
	defer lock.Close()
	dir, err := beneath.Dir(r.root, run.ID.dir())
	if err != nil {
		return false
	}
	defer dir.Close()
	_, err = dir.Lstat(socketName) // is made before the container starts
	return errors.Is(err, fs.ErrNotExist)
}

func (r *Runtime) insertLocked(l *live) {
	runs := append(r.runs[l.ID.Pod], l)
	slices.SortFunc(runs, func(a, b *live) int {
		return cmp.Or(cmp.Compare(a.ID.Container, b.ID.Container), a.ID.Attempt-b.ID.Attempt)
	})
	r.runs[l.ID.Pod] = runs
}

// tryLock opens a file, or makes it, and locks it as long as a process has the file open.
func tryLock(in *os.Root, name string, create bool) (*os.File, error) {
	if create {
		if err := beneath.Create(in, name, nil, 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	f, err := beneath.Open(in, name, os.O_RDWR)
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

// Runs returns the runs of a pod, sorted by container and attempt: of each container the last one
// and the one before.
func (r *Runtime) Runs(pod string) []Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Run
	for _, l := range r.runs[pod] {
		all = append(all, l.Run)
	}
	return all
}

// Root is the directory of the Runtime, until Close.
func (r *Runtime) Root() *os.Root { return r.root }

// PodDir returns a directory for further files of a pod, below Root, which Remove removes. It has
// no name that a container can have.
func (r *Runtime) PodDir(pod string) string { return filepath.Join("pods", pod, "_pod") }

// LogPath returns the path of the current log file of a run, below Root.
func (r *Runtime) LogPath(id ID) string { return filepath.Join(id.dir(), "log") }

// startLimit is the time in which a shim starts its container.
const startLimit = time.Minute

// Start starts a run. The attempt must be later than all others of the container, and these must
// have ended. A program that cannot be executed is a run that has ended with the reason StartError,
// not an error of Start.
func (r *Runtime) Start(ctx context.Context, s Spec) (Run, error) {
	if err := s.ID.validate(); err != nil {
		return Run{}, err
	}
	if err := r.forgetOld(s.ID); err != nil {
		return Run{}, err
	}
	s.Env = append(slices.Clone(s.Env), Marker+"="+s.ID.String())
	dir := s.ID.dir()
	parent, err := beneath.MakeDir(r.root, filepath.Dir(dir))
	if err != nil {
		return Run{}, err
	}
	defer parent.Close()
	if err := parent.Mkdir(filepath.Base(dir), 0o700); err != nil { // fails if there was such an attempt
		return Run{}, err
	}
	lock, err := tryLock(r.root, filepath.Join(dir, "lock"), true)
	if err != nil {
		return Run{}, errors.Join(err, beneath.RemoveAll(r.root, dir))
	}
	defer lock.Close() // again, after startShim
	if r.groups != nil {
		if s.Group, err = r.groups.Make(groupOf(s.ID), s.Limits); err != nil {
			return Run{}, errors.Join(fmt.Errorf("limit the container: %w", err), beneath.RemoveAll(r.root, dir))
		}
	}
	if err := errors.Join(writeFile(r.root, filepath.Join(dir, "spec.json"), &s), beneath.Sync(parent)); err != nil {
		return Run{}, errors.Join(err, beneath.RemoveAll(r.root, dir))
	}
	return r.startShim(ctx, s, dir, lock)
}

// Limit makes the control group in which containers with Spec.Limits have theirs. It is called
// before the first Start. The error says which limits have no effect, and why.
func (r *Runtime) Limit() (err error) {
	sum := sha256.Sum256([]byte(r.options.Dir))
	if r.groups, err = cgroup.Open(fmt.Sprintf("kapok-%x", sum[:6])); err != nil {
		return err
	}
	if missing := r.groups.Missing(); len(missing) > 0 {
		return fmt.Errorf("the system permits no limits of %s", strings.Join(missing, ", "))
	}
	return nil
}

// groupOf returns the name of the control group of a run.
func groupOf(id ID) string { return fmt.Sprintf("%s_%s_%d", id.Pod, id.Container, id.Attempt) }

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
		if err := beneath.RemoveAll(r.root, l.ID.dir()); err != nil {
			return err
		}
	}
	return nil
}

// probeLimit is the time in which a process with mounts of its own ends.
const probeLimit = 10 * time.Second

// Mounts returns why containers cannot have mounts of their own on this system, as Spec.Hosts needs
// them; nil if they can.
func (r *Runtime) Mounts(ctx context.Context) error {
	if err := beneath.Create(r.root, "hosts", nil, 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	probe := exec.CommandContext(ctx, r.executable)
	probe.Env = []string{mountVariable + "=" + r.path("hosts")}
	probe.SysProcAttr = &syscall.SysProcAttr{}
	if err := ownMounts(probe.SysProcAttr); err != nil {
		return err
	}
	output, err := probe.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("start a process with mounts of its own: %w: %s", err, bytes.TrimSpace(output))
	}
	return err
}

// Isolates returns why containers cannot have a root directory of their own on this system, as
// Spec.Root needs it; nil if they can.
func (r *Runtime) Isolates(ctx context.Context) error {
	const name = "probe"
	if err := beneath.RemoveAll(r.root, name); err != nil {
		return err
	}
	lower, err := beneath.MakeDir(r.root, filepath.Join(name, "lower"))
	if err != nil {
		return err
	}
	lower.Close()
	return errors.Join(r.probe(ctx, r.path(name)), beneath.RemoveAll(r.root, name))
}

// path returns the path of a directory of the Runtime.
func (r *Runtime) path(dir string) string { return filepath.Join(r.options.Dir, dir) }

func (r *Runtime) startShim(ctx context.Context, s Spec, dir string, lock *os.File) (Run, error) {
	ready, report, err := os.Pipe()
	if err != nil {
		return Run{}, err
	}
	defer ready.Close()
	shim := exec.Command(r.executable)
	shim.Args = []string{"kapok-container", s.ID.String()}
	shim.Env = []string{shimVariable + "=" + r.path(dir)}
	shim.Dir = "/"
	shim.ExtraFiles = []*os.File{lock, report}
	if r.tethered != nil {
		shim.ExtraFiles = append(shim.ExtraFiles, r.tethered)
		shim.Env = append(shim.Env, tetherVariable+"=1")
	}
	shim.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if s.Root == nil && s.Hosts != "" {
		shim.Env = append(shim.Env, mountVariable+"="+s.Hosts)
		if err := ownMounts(shim.SysProcAttr); err != nil {
			report.Close()
			lock.Close()
			return Run{}, errors.Join(err, beneath.RemoveAll(r.root, dir))
		}
	}
	if s.Root != nil {
		err = r.launchShim(ctx, &s, dir, lock, report)
	} else {
		err = shim.Start()
	}
	report.Close()
	lock.Close() // the shim has it
	if err != nil {
		return Run{}, errors.Join(fmt.Errorf("start a shim: %w", err), beneath.RemoveAll(r.root, dir))
	}
	l := &live{Run: Run{Spec: s}, done: make(chan struct{})}
	// The end of the context, of the program or of the time ends a start that hangs.
	kill := func() { _ = shim.Process.Kill() }
	if s.Root != nil {
		shim = nil
		kill = func() { killShim(r.path(dir), started{}) }
	}
	stop := context.AfterFunc(ctx, kill)
	defer stop()
	limit := time.AfterFunc(startLimit, kill)
	defer limit.Stop()
	var answer response
	reported := json.NewDecoder(ready).Decode(&answer)
	if reported == nil && answer.Started != nil {
		// What the container could have changed in the file meanwhile does not count.
		l.begin = *answer.Started
		l.Pid, l.Started = l.begin.Pid, l.begin.Time
	}
	r.mu.Lock()
	r.insertLocked(l)
	r.group.Add(1)
	r.mu.Unlock()
	watch := func() {
		defer r.group.Done()
		r.watch(l, shim)
	}
	if reported != nil || answer.Started == nil {
		watch() // the shim has ended or ends
		r.mu.Lock()
		defer r.mu.Unlock()
		return l.Run, ctx.Err()
	}
	run := l.Run
	go watch()
	return run, nil
}

// watch waits for the end of a run, and notes how it has ended. shim is nil for one that another
// process has started.
func (r *Runtime) watch(l *live, shim *exec.Cmd) {
	dir := l.ID.dir()
	if shim != nil {
		_ = shim.Wait() // what it reports is in its files
	}
	lock := r.waitLock(l)
	var e Exit
	found, err := readFile(r.root, filepath.Join(dir, "exit.json"), &e)
	if err != nil || !found {
		killMarked(l.ID, l.begin)
		e = Exit{Code: 137, Time: time.Now(), Reason: Lost, Message: "The process that watched the container has been killed"}
		_ = writeFile(r.root, filepath.Join(dir, "exit.json"), &e) // else the next program finds the same
	}
	if lock != nil {
		lock.Close()
	}
	_ = l.Group.Remove() // an empty group is left behind
	r.mu.Lock()
	l.Exit = &e
	r.mu.Unlock()
	close(l.done)
	r.options.Changed(l.ID.Pod)
}

// waitLock waits for the end of a shim, and returns its lock; nil if the container has removed or
// replaced it.
func (r *Runtime) waitLock(l *live) *os.File {
	dir := l.ID.dir()
	for {
		lock, err := tryLock(r.root, filepath.Join(dir, "lock"), false)
		if err == nil {
			return lock
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil
		}
		// The connection lasts as long as the shim. It is refused at its start and at its end.
		if c, err := r.dial(dir); err == nil {
			var p response
			if send(c, request{Do: "watch"}) == nil {
				if _, err := receive(c, &p); err == nil && p.Started != nil {
					r.begun(l, *p.Started)
				}
				_, _ = io.Copy(io.Discard, c)
			}
			c.Close()
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// begun notes the begin of a run that another program has started, and whose container did not run
// yet when it was adopted.
func (r *Runtime) begun(l *live, begin started) {
	r.mu.Lock()
	known := !l.Started.IsZero()
	if !known {
		l.begin, l.Pid, l.Started = begin, begin.Pid, begin.Time
	}
	r.mu.Unlock()
	if !known {
		r.options.Changed(l.ID.Pod)
	}
}

// dial connects to the shim of a run.
func (r *Runtime) dial(dir string) (*net.UnixConn, error) {
	d, err := beneath.Dir(r.root, dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return dial(d)
}

// running returns a run that has not ended.
func (r *Runtime) running(id ID) (*live, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.runs[id.Pod] {
		if l.ID == id && l.Exit == nil {
			return l, nil
		}
	}
	return nil, ErrNotRunning
}

// answerLimit is the time in which a shim responds: the container may have stopped it.
const answerLimit = 10 * time.Second

// ask sends a request to the shim of a run, and returns the first response.
func (r *Runtime) ask(id ID, q request, files ...*os.File) (*net.UnixConn, response, error) {
	if _, err := r.running(id); err != nil {
		return nil, response{}, err
	}
	c, err := r.dial(id.dir())
	if err != nil {
		return nil, response{}, fmt.Errorf("%w: %w", ErrNotRunning, err)
	}
	var p response
	_ = c.SetDeadline(time.Now().Add(r.patience))
	if err = send(c, q, files...); err == nil {
		_, err = receive(c, &p)
	}
	_ = c.SetDeadline(time.Time{})
	if err != nil {
		c.Close()
		return nil, p, fmt.Errorf("%w: %w", ErrNotRunning, err)
	}
	return c, p, nil
}

// Signal sends a signal to the first process of a container. It does so itself if the shim does not
// respond.
func (r *Runtime) Signal(id ID, signal syscall.Signal) error {
	c, _, err := r.ask(id, request{Do: "signal", Signal: int(signal)})
	if err == nil {
		return c.Close()
	}
	l, gone := r.running(id)
	if gone != nil {
		return gone
	}
	r.mu.Lock()
	begin := l.begin
	r.mu.Unlock()
	if begin.Pid <= 0 || begin.Birth == "" || birth(begin.Pid) != begin.Birth {
		return err
	}
	return syscall.Kill(begin.Pid, signal)
}

// Terminate sends the signal TERM to the first process of a container.
func (r *Runtime) Terminate(id ID) error { return r.Signal(id, syscall.SIGTERM) }

// Kill kills a container. If its shim does not respond, because the container has stopped it or
// removed its files, the shim is killed, too, and the run is lost.
func (r *Runtime) Kill(id ID) error {
	c, _, err := r.ask(id, request{Do: "signal", Signal: int(syscall.SIGKILL)})
	if err == nil {
		return c.Close()
	}
	l, gone := r.running(id)
	if gone != nil {
		return gone
	}
	r.mu.Lock()
	begin := l.begin
	r.mu.Unlock()
	killShim(r.path(id.dir()), begin)
	return nil // watch kills what is left
}

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
	return beneath.RemoveAll(r.root, filepath.Join("pods", pod))
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
	done := make(chan struct{})
	go func() {
		r.group.Wait()
		close(done)
	}()
	each(all, r.Terminate)
	select {
	case <-done:
	case <-time.After(grace):
		each(all, r.Kill)
		<-done
	}
	r.endLauncher()
	if r.groups != nil {
		_ = r.groups.Close() // an empty group is left behind
	}
	r.watchers.Wait()
	r.release()
}

// each calls a function for several runs at the same time: a shim may take a while to respond.
// Those that have ended are errors.
func each(all []ID, do func(ID) error) {
	var group sync.WaitGroup
	for _, id := range all {
		group.Go(func() { _ = do(id) })
	}
	group.Wait()
}
