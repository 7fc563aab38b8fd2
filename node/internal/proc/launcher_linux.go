package proc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/kapok-dev/kapok/node/internal/beneath"
	"github.com/kapok-dev/kapok/node/internal/podnet"
	"github.com/kapok-dev/kapok/node/internal/thread"

	"golang.org/x/sys/unix"
)

// A launcher is the parent of the shims of containers with a Root: this program again, in a
// namespace of users of its own, in which it may make networks. It has what outlives the program
// that has started it: the namespaces of the networks of pods. Shims and their containers are in
// namespaces of users below its own, so that it may put them into these networks. Containers have
// no permissions over them.
//
// The file of the program that a launcher starts is on a mount of its own, which is read-only:
// processes of a container may find it by /proc/self/exe, and cannot change it.

const (
	// launcherVariable is set in the environment of a launcher, to its directory.
	launcherVariable = "KAPOK_PROCESS_LAUNCHER"
	// launcherDir is the directory of the launcher, below that of the Runtime.
	launcherDir = "launcher"
	// launchLimit is the time in which a launcher starts, and responds.
	launchLimit = 30 * time.Second
	// programFile is the lowest descriptor of the program in a launcher: lower ones are those
	// of shims.
	programFile = 20
)

// An order is what a program asks of its launcher, with files.
type order struct {
	Do      string          // watch, probe, network, start, leave, open, end
	Dir     string          // of probe
	Network *podnet.Options // of network
	Shim    *shimOrder      // of start, with the files lock, ready and tether
	Pod     string          // of leave
	Socket  *podnet.Socket  // of open
	Timeout time.Duration   // of open
}

// A shimOrder describes a shim.
type shimOrder struct {
	Dir      string // of the run
	Name     string // of the run
	UID, GID int    // of the container
	Pod      string
	Address  netip.Addr // of the pod in the network; invalid: the network of the machine
	Tether   bool
}

// A launcher is the state of the process.
type launcher struct {
	program string // the path of the program of shims

	mu      sync.Mutex
	network *podnet.Network // nil before it is made
	options podnet.Options
}

// runLauncher is the function main of a launcher.
func runLauncher(dir string) int {
	for fd := lockFile; fd <= tetherFile; fd++ {
		syscall.CloseOnExec(fd)
	}
	os.Unsetenv(launcherVariable)
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGPIPE)
	debug.FreeOSMemory() // what the initialization of the program has left
	ready := os.NewFile(readyFile, "ready")
	l := &launcher{}
	listener, err := l.begin(dir)
	if err != nil {
		json.NewEncoder(ready).Encode(response{Error: err.Error()})
		return 1
	}
	json.NewEncoder(ready).Encode(response{Pid: os.Getpid()}) // fails if the program has ended
	ready.Close()
	if os.Getenv(tetherVariable) != "" {
		go func() {
			_, _ = io.Copy(io.Discard, os.NewFile(tetherFile, "tether")) // ends with the program
			listener.Close()
		}()
	}
	for {
		c, err := listener.AcceptUnix()
		switch {
		case err == nil:
			go func() {
				if l.serve(c) {
					listener.Close()
				}
			}()
		case errors.Is(err, net.ErrClosed):
			return 0
		default:
			time.Sleep(10 * time.Millisecond) // such as too many open files
		}
	}
}

func (l *launcher) begin(dir string) (*net.UnixListener, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	program, err := readOnlyProgram()
	if err != nil {
		return nil, err
	}
	l.program = fmt.Sprintf("/proc/self/fd/%d", program)
	return listen(root)
}

// readOnlyProgram returns a descriptor of the file of this program on a mount that is read-only,
// which no directory shows.
func readOnlyProgram() (int, error) {
	tree, err := unix.OpenTree(unix.AT_FDCWD, ownProgram, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return 0, &os.PathError{Op: "open_tree", Path: ownProgram, Err: err}
	}
	defer unix.Close(tree)
	if err := setReadOnly(tree, "", unix.AT_EMPTY_PATH); err != nil {
		return 0, err
	}
	return unix.FcntlInt(uintptr(tree), unix.F_DUPFD_CLOEXEC, programFile)
}

// serve responds to an order, and reports whether the launcher is to end.
func (l *launcher) serve(c *net.UnixConn) (end bool) {
	defer c.Close()
	var o order
	files, err := receive(c, &o)
	defer func() { closeAll(files) }()
	if err != nil {
		return false
	}
	var answer response
	var opened *os.File
	switch {
	case o.Do == "watch":
		send(c, answer)
		_, _ = io.Copy(io.Discard, c) // until either side ends
		return false
	case o.Do == "end":
		send(c, answer)
		return true
	case o.Do == "probe":
		err = l.probe(o.Dir)
	case o.Do == "network" && o.Network != nil:
		answer.Note, err = l.make(o.Network)
	case o.Do == "start" && o.Shim != nil && len(files) >= 2:
		answer.Pid, err = l.start(o.Shim, files)
	case o.Do == "leave":
		err = l.leave(o.Pod)
	case o.Do == "open" && o.Socket != nil:
		if opened, err = l.open(o.Socket, o.Timeout); err == nil {
			defer opened.Close()
			send(c, answer, opened)
			return false
		}
	default:
		err = fmt.Errorf("order %q is unknown", o.Do)
	}
	if err != nil {
		answer.Error = err.Error()
		errors.As(err, &answer.Errno)
	}
	send(c, answer)
	return false
}

// probe starts a process that enters a root directory and ends, as the first process of a container
// does.
func (l *launcher) probe(dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), probeLimit)
	defer cancel()
	c := exec.CommandContext(ctx, l.program)
	c.Env = []string{probeVariable + "=" + dir}
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces}
	if err := ownUsers(c.SysProcAttr, &Root{}); err != nil {
		return err
	}
	if output, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(output))
	}
	return nil
}

// make makes the network, unless it exists. The note is why connections to other networks fail.
func (l *launcher) make(o *podnet.Options) (note string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.network == nil:
		if l.network, err = podnet.New(*o); err != nil {
			return "", err
		}
		l.options = *o
	case l.options != *o:
		return "", fmt.Errorf("the network of pods has the ranges %s and %s, and cannot have %s and %s while containers run", l.options.Pods, l.options.Services, o.Pods, o.Services)
	}
	if err := l.network.Outside(); err != nil {
		note = err.Error()
	}
	return note, nil
}

// made returns the network.
func (l *launcher) made() (*podnet.Network, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.network == nil {
		return nil, errors.New("the network of pods has not been made")
	}
	return l.network, nil
}

// start starts a shim.
func (l *launcher) start(o *shimOrder, files []*os.File) (pid int, err error) {
	shim := exec.Command(l.program)
	shim.Args = []string{"kapok-container", o.Name}
	shim.Env = []string{shimVariable + "=" + o.Dir}
	if o.Tether {
		shim.Env = append(shim.Env, tetherVariable+"=1")
	}
	shim.Dir = "/"
	shim.ExtraFiles = files
	shim.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := ownUsers(shim.SysProcAttr, &Root{UID: o.UID, GID: o.GID}); err != nil {
		return 0, err
	}
	var namespace *os.File
	if o.Address.IsValid() {
		network, err := l.made()
		if err != nil {
			return 0, err
		}
		if namespace, err = network.Pod(o.Pod, o.Address); err != nil {
			return 0, err
		}
	}
	if namespace == nil {
		err = shim.Start()
	} else {
		thread.Run(func() {
			if err = podnet.Enter(namespace); err == nil {
				err = shim.Start()
			}
		})
	}
	if err != nil {
		return 0, err
	}
	go func() { _ = shim.Wait() }() // what it reports is in its files
	return shim.Process.Pid, nil
}

func (l *launcher) leave(pod string) error {
	network, err := l.made()
	if err != nil {
		return nil
	}
	return network.Remove(pod)
}

func (l *launcher) open(s *podnet.Socket, timeout time.Duration) (*os.File, error) {
	network, err := l.made()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return network.Open(ctx, *s)
}

// launch starts the launcher, unless it runs.
func (r *Runtime) launch(ctx context.Context) error {
	r.launching.Lock()
	defer r.launching.Unlock()
	if r.launched {
		return nil
	}
	dir, err := beneath.MakeDir(r.root, launcherDir)
	if err != nil {
		return err
	}
	dir.Close()
	lock, err := tryLock(r.root, filepath.Join(launcherDir, "lock"), true)
	if err == nil {
		err = r.startLauncher(ctx, lock)
		lock.Close() // the launcher has it
	}
	if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("start the launcher of containers: %w", err)
	}
	c, err := r.dial(launcherDir)
	if err != nil {
		return fmt.Errorf("connect to the launcher of containers: %w", err)
	}
	var p response
	if err = send(c, order{Do: "watch"}); err == nil {
		_, err = receive(c, &p)
	}
	if err != nil {
		c.Close()
		return fmt.Errorf("connect to the launcher of containers: %w", err)
	}
	r.launched = true
	r.watchers.Go(func() { r.watchLauncher(c) })
	return nil
}

func (r *Runtime) startLauncher(ctx context.Context, lock *os.File) error {
	ready, report, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	c := exec.Command(r.executable)
	c.Args = []string{"kapok-node"}
	c.Env = []string{launcherVariable + "=" + r.path(launcherDir)}
	c.Dir = "/"
	c.ExtraFiles = []*os.File{lock, report}
	if r.tethered != nil {
		c.ExtraFiles = append(c.ExtraFiles, r.tethered)
		c.Env = append(c.Env, tetherVariable+"=1")
	}
	c.SysProcAttr = &syscall.SysProcAttr{
		Setsid: true, Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	}
	err = c.Start()
	report.Close()
	if err != nil {
		return err
	}
	r.watchers.Go(func() { _ = c.Wait() }) // until Close, or beyond the end of this program
	stop := context.AfterFunc(ctx, func() { c.Process.Kill() })
	defer stop()
	limit := time.AfterFunc(launchLimit, func() { c.Process.Kill() })
	defer limit.Stop()
	var answer response
	if err := json.NewDecoder(ready).Decode(&answer); err != nil {
		return fmt.Errorf("no response: %w", err)
	}
	if answer.Error != "" {
		return errors.New(answer.Error)
	}
	return nil
}

// watchLauncher waits for the end of the launcher. Containers that it has started have lost their
// network then, and are killed.
func (r *Runtime) watchLauncher(c *net.UnixConn) {
	_, _ = io.Copy(io.Discard, c)
	c.Close()
	r.launching.Lock()
	r.launched = false
	r.launching.Unlock()
	r.mu.Lock()
	closed := r.closed
	var all []ID
	for _, runs := range r.runs {
		for _, l := range runs {
			if l.Exit == nil && l.Address.IsValid() {
				all = append(all, l.ID)
			}
		}
	}
	r.mu.Unlock()
	if closed {
		return
	}
	r.options.Lost()
	each(all, r.Kill)
}

// endLauncher ends the launcher, if there is one.
func (r *Runtime) endLauncher() {
	c, err := r.dial(launcherDir)
	if err != nil {
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(launchLimit))
	if send(c, order{Do: "end"}) == nil {
		_, err = receive(c, &response{})
	}
	if err != nil {
		killWith(launcherVariable + "=" + r.path(launcherDir))
	}
}

// command sends an order to the launcher, and returns its response. The caller closes the files.
func (r *Runtime) command(ctx context.Context, o order, files ...*os.File) (p response, received []*os.File, err error) {
	if err := r.launch(ctx); err != nil {
		return p, nil, err
	}
	c, err := r.dial(launcherDir)
	if err != nil {
		return p, nil, err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	_ = c.SetDeadline(time.Now().Add(launchLimit))
	if err = send(c, o, files...); err == nil {
		received, err = receive(c, &p)
	}
	if err == nil && p.Error != "" {
		err = &launchError{p.Error, p.Errno}
	}
	if err != nil {
		closeAll(received)
		return p, nil, err
	}
	return p, received, nil
}

// A launchError is one of the launcher.
type launchError struct {
	message string
	errno   syscall.Errno // 0: none
}

func (e *launchError) Error() string { return e.message }

func (e *launchError) Unwrap() error {
	if e.errno == 0 {
		return nil
	}
	return e.errno
}

// probe lets the launcher start a process that enters a root directory.
func (r *Runtime) probe(ctx context.Context, dir string) error {
	_, _, err := r.command(ctx, order{Do: "probe", Dir: dir})
	if err != nil {
		return explain(err)
	}
	return nil
}

// launchShim starts a shim by the launcher.
func (r *Runtime) launchShim(ctx context.Context, s *Spec, dir string, lock, report *os.File) error {
	o := &shimOrder{Dir: r.path(dir), Name: s.ID.String(), UID: s.Root.UID, GID: s.Root.GID, Pod: s.ID.Pod, Address: s.Address, Tether: r.tethered != nil}
	files := []*os.File{lock, report}
	if r.tethered != nil {
		files = append(files, r.tethered)
	}
	_, received, err := r.command(ctx, order{Do: "start", Shim: o}, files...)
	closeAll(received)
	return err
}

// Network makes the network in which containers with an Address are, unless it exists. outside is
// why their connections to other networks fail, nil if they do not.
func (r *Runtime) Network(ctx context.Context, o podnet.Options) (outside, err error) {
	p, _, err := r.command(ctx, order{Do: "network", Network: &o})
	if err == nil && p.Note != "" {
		outside = errors.New(p.Note)
	}
	return outside, err
}

// Socket returns a socket in the network of pods.
func (r *Runtime) Socket(ctx context.Context, s podnet.Socket) (*os.File, error) {
	timeout := launchLimit
	if end, has := ctx.Deadline(); has {
		timeout = min(timeout, time.Until(end))
	}
	_, files, err := r.command(ctx, order{Do: "open", Socket: &s, Timeout: timeout})
	if err != nil {
		return nil, err
	}
	if len(files) != 1 {
		closeAll(files)
		return nil, fmt.Errorf("the launcher has sent %d files, want one", len(files))
	}
	return files[0], nil
}

// Leave removes a pod from the network. Its address can then be that of another one.
func (r *Runtime) Leave(ctx context.Context, pod string) error {
	r.launching.Lock()
	launched := r.launched
	r.launching.Unlock()
	if !launched {
		return nil
	}
	_, _, err := r.command(ctx, order{Do: "leave", Pod: pod})
	return err
}
