package simulated

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/kapok-dev/kapok/node/internal/crilog"
	"github.com/kapok-dev/kapok/node/internal/kubelet"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// Answers are what the Kubelet answers for pods, in place of their annotations. A function returns
// nil for a pod for which the annotation counts, and an error that clients see. Package stages has
// those of KWOK's kinds. The functions are called from several goroutines.
type Answers interface {
	// Log returns the log of a container.
	Log(p *corev1.Pod, container string) (*LogFile, error)
	// Attach returns the log that clients that are attached to a container see.
	Attach(p *corev1.Pod, container string) (*LogFile, error)
	// Exec returns how commands are executed in a container.
	Exec(p *corev1.Pod, container string) (*Commands, error)
	// Forward returns with what connections to a port of a pod are connected.
	Forward(p *corev1.Pod, port int32) (*Forward, error)
}

// A LogFile is a log of this machine, in the format of container runtimes.
type LogFile struct {
	Path     string
	Previous string // of the run before
}

// Commands are executed on this machine.
type Commands struct {
	Dir         string
	Env         []string // NAME=VALUE, in addition to that of this process
	User, Group *int64   // nil: those of this process
}

// A Forward is a program, whose input and output are the connection, or else an address.
type Forward struct {
	Command []string
	Address string // host and port
}

// readLogFile writes a part of a log, until the container no longer runs or the context ends if it
// is followed.
func readLogFile(ctx context.Context, path string, o kubelet.LogOptions, out io.Writer, ended func() bool) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, fmt.Errorf("%s is not a file", path))
	}
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer root.Close()
	return crilog.Read(ctx, root, filepath.Base(path), o, out, ended)
}

// flusher flushes a response.
type flusher struct {
	io.Writer
	control *http.ResponseController
}

// Flush is called before a pause.
func (f *flusher) Flush() { _ = f.control.Flush() } // fails if the client has gone

// answerLog responds with the log of a file, and reports whether there is one.
func (k *nodeKubelet) answerLog(w http.ResponseWriter, r *http.Request, p *corev1.Pod, container string, o kubelet.LogOptions, running bool) (answered bool) {
	if k.answers == nil {
		return false
	}
	file, err := k.answers.Log(p, container)
	if file == nil && err == nil {
		return false
	}
	path := ""
	if err == nil {
		if path = file.Path; o.Previous {
			path = file.Previous
		}
		if path == "" {
			err = fmt.Errorf("no log file is set for container %q in pod %q", container, p.Name)
		}
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return true
	}
	w.Header().Set("Content-Type", "text/plain")
	out := &flusher{Writer: w, control: http.NewResponseController(w)}
	if err := readLogFile(r.Context(), path, o, out, k.ended(r.Context(), p, container, !running || o.Previous)); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError) // after the beginning of a response, a line of it
	}
	return true
}

// ended returns a function that reports whether a container has ended, at intervals. over says that
// it has.
func (k *nodeKubelet) ended(ctx context.Context, p *corev1.Pod, container string, over bool) func() bool {
	var began metav1.Time
	if s := kubelet.StatusOf(p, container); s != nil && s.State.Running != nil {
		began = s.State.Running.StartedAt
	}
	last := time.Now()
	return func() bool {
		if over || time.Since(last) < followInterval {
			return over
		}
		last = time.Now()
		over = !k.runs(ctx, p, container, began)
		return over
	}
}

// execute runs a command on this machine.
func (c *Commands) execute(ctx context.Context, command []string, in io.Reader, out, errs io.Writer, tty bool, sizes <-chan remotecommand.TerminalSize) error {
	if len(command) == 0 {
		return errors.New("the command is empty")
	}
	run := exec.CommandContext(ctx, command[0], command[1:]...)
	run.Dir, run.Env = c.Dir, append(os.Environ(), c.Env...)
	run.WaitDelay = waitDelay
	if err := c.setUser(run); err != nil {
		return err
	}
	if tty {
		return exitError(runInTerminal(run, in, out, sizes))
	}
	run.Stdout, run.Stderr = out, errs
	if in != nil {
		// The library would wait for the end of the input, which is that of the connection.
		pipe, err := run.StdinPipe()
		if err != nil {
			return err
		}
		go func() { // ends with the connection
			_, _ = io.Copy(pipe, in)
			pipe.Close()
		}()
	}
	return exitError(run.Run())
}

// waitDelay is the time for which the output of a command may remain open after its end.
const waitDelay = 2 * time.Second

// writerOf returns a writer that discards what is written without a stream.
func writerOf(w io.WriteCloser) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// exitError returns the error of a command as clients see it.
func exitError(err error) error {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return utilexec.CodeExitError{Err: errors.New("command terminated with a non-zero exit code"), Code: max(exit.ExitCode(), 1)}
	}
	return err
}

// forwarder implements portforward.PortForwarder.
type forwarder struct {
	answers Answers
	pod     *corev1.Pod
}

// PortForward implements portforward.PortForwarder.
func (f *forwarder) PortForward(ctx context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	if err := kubelet.AwaitOpen(stream); err != nil {
		return err
	}
	to, err := f.answers.Forward(f.pod, port)
	switch {
	case err != nil:
		return err
	case to == nil:
		return fmt.Errorf("pod %s is simulated, and listens at no port", f.pod.Name)
	case len(to.Command) > 0:
		return exitError((&Commands{}).execute(ctx, to.Command, stream, stream, io.Discard, false, nil))
	}
	d := net.Dialer{Timeout: dialTimeout}
	c, err := d.DialContext(ctx, "tcp", to.Address)
	if err != nil {
		return err
	}
	return kubelet.Forward(ctx, stream, c)
}

// dialTimeout limits the time for a connection.
const dialTimeout = 10 * time.Second

// forward serves port-forward.
func (k *nodeKubelet) forward(w http.ResponseWriter, r *http.Request, namespace, name string) {
	p := k.pod(w, r, namespace, name)
	if p == nil {
		return
	}
	if k.answers == nil {
		http.Error(w, fmt.Sprintf("pod %s is simulated, and listens at no port", p.Name), http.StatusBadRequest)
		return
	}
	options, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	portforward.ServePortForward(w, r, &forwarder{k.answers, p}, p.Name, string(p.UID), options, idleStream,
		remotecommand.DefaultStreamCreationTimeout, portforward.SupportedProtocols)
}
