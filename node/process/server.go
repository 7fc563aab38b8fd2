package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/node/internal/crilog"
	"github.com/kapok-dev/kapok/node/internal/kubelet"
	"github.com/kapok-dev/kapok/node/internal/proc"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/utils/exec"
)

const (
	// idleStream ends a stream on which nothing is sent, as in the kubelet.
	idleStream  = 4 * time.Hour
	dialTimeout = 10 * time.Second
)

// A server answers what API servers ask of the kubelet of the node. It starts no goroutine of its
// own: streams end with their requests.
type server struct{ *pods }

// ServeHTTP implements http.Handler. The paths are those of the kubelet.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case r.URL.Path == "/healthz":
		io.WriteString(w, "ok")
	case parts[0] == "containerLogs" && len(parts) == 4:
		s.log(w, r, parts[1], parts[2], parts[3])
	case (parts[0] == "exec" || parts[0] == "attach") && len(parts) == 4:
		s.stream(w, r, parts[0], parts[1], parts[2], parts[3])
	case parts[0] == "portForward" && len(parts) == 3:
		s.forward(w, r, parts[1], parts[2])
	default:
		http.NotFound(w, r)
	}
}

// pod returns a pod of the node, or responds with an error.
func (s *server) pod(w http.ResponseWriter, r *http.Request, namespace, name string) *corev1.Pod {
	reader := s.live.Load()
	if reader == nil {
		http.Error(w, "the node is stopping", http.StatusServiceUnavailable)
		return nil
	}
	p := &corev1.Pod{}
	err := (*reader).Get(r.Context(), client.Key(namespace, name), p)
	if err != nil && !apierrors.IsNotFound(err) {
		http.Error(w, fmt.Sprintf("read pod %q: %v", name, err), http.StatusInternalServerError)
		return nil
	}
	if err != nil || p.Spec.NodeName != s.options.Name {
		http.Error(w, fmt.Sprintf("pod %q not found", name), http.StatusNotFound)
		return nil
	}
	return p
}

// lastRun returns the last run of a container and the one before, nil if there are none.
func (s *server) lastRun(p *corev1.Pod, container string) (last, before *proc.Run) {
	runs := s.runtime.Runs(string(p.UID))
	for i := range runs {
		if runs[i].ID.Container == container {
			last, before = &runs[i], last
		}
	}
	return last, before
}

// log responds with the log of a container.
func (s *server) log(w http.ResponseWriter, r *http.Request, namespace, name, container string) {
	p := s.pod(w, r, namespace, name)
	if p == nil {
		return
	}
	o, err := kubelet.ParseLogOptions(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	run, before := s.lastRun(p, container)
	if o.Previous {
		if run = before; run == nil {
			http.Error(w, fmt.Sprintf("previous terminated container %q in pod %q not found", container, p.Name), http.StatusBadRequest)
			return
		}
	}
	if run == nil {
		_, _, err := kubelet.LoggedSince(p, kubelet.StatusOf(p, container), container, false)
		if err == nil {
			err = fmt.Errorf("container %q in pod %q is not available", container, p.Name)
		}
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	out := &flusher{Writer: w, control: http.NewResponseController(w)}
	id := run.ID
	ended := func() bool {
		runs := s.runtime.Runs(id.Pod)
		i := slices.IndexFunc(runs, func(r proc.Run) bool { return r.ID == id })
		return i < 0 || runs[i].Exit != nil
	}
	// The response has begun, or its client has gone.
	_ = crilog.Read(r.Context(), s.runtime.Root(), s.runtime.LogPath(id), o, out, ended)
}

type flusher struct {
	io.Writer
	control *http.ResponseController
}

// Flush is called before a pause.
func (f *flusher) Flush() { _ = f.control.Flush() } // fails if the client has gone

// stream serves exec and attach.
func (s *server) stream(w http.ResponseWriter, r *http.Request, verb, namespace, name, container string) {
	p := s.pod(w, r, namespace, name)
	if p == nil {
		return
	}
	run, _ := s.lastRun(p, container)
	if run == nil || run.Exit != nil {
		http.Error(w, fmt.Sprintf("container not found (%q)", container), http.StatusInternalServerError)
		return
	}
	streams, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if !kubelet.Speaks(r) {
		http.Error(w, "none of the protocols of the WebSocket is supported", http.StatusBadRequest)
		return
	}
	to := &streamed{server: s, run: run.ID}
	if verb == "attach" {
		remotecommand.ServeAttach(w, r, to, p.Name, string(p.UID), container, streams, idleStream,
			remotecommand.DefaultStreamCreationTimeout, remotecommand.SupportedStreamingProtocols)
		return
	}
	remotecommand.ServeExec(w, r, to, p.Name, string(p.UID), container, r.URL.Query()["command"], streams, idleStream,
		remotecommand.DefaultStreamCreationTimeout, remotecommand.SupportedStreamingProtocols)
}

// streamed is a container with streams.
type streamed struct {
	*server
	run proc.ID
}

// ExecInContainer implements remotecommand.Executor.
func (s *streamed) ExecInContainer(
	ctx context.Context, _, _, _ string, command []string, in io.Reader, out, errs io.WriteCloser, tty bool, sizes <-chan remotecommand.TerminalSize, timeout time.Duration,
) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	err := s.runtime.Exec(ctx, s.run, command, streamsOf(ctx, in, out, errs, tty, sizes))
	if exit := (*proc.ExitError)(nil); errors.As(err, &exit) {
		return exec.CodeExitError{Err: err, Code: exit.Code}
	}
	return err
}

// AttachContainer implements remotecommand.Attacher.
func (s *streamed) AttachContainer(ctx context.Context, _, _, _ string, in io.Reader, out, errs io.WriteCloser, tty bool, sizes <-chan remotecommand.TerminalSize) error {
	return s.runtime.Attach(ctx, s.run, streamsOf(ctx, in, out, errs, tty, sizes))
}

func streamsOf(ctx context.Context, in io.Reader, out, errs io.WriteCloser, tty bool, sizes <-chan remotecommand.TerminalSize) proc.Streams {
	s := proc.Streams{Terminal: tty}
	// A nil interface of another type would not be nil.
	if in != nil {
		s.In = in
	}
	if out != nil {
		s.Out = out
	}
	if errs != nil {
		s.Err = errs
	}
	if sizes != nil {
		to := make(chan proc.Size)
		s.Resize = to
		go func() { // ends with the request
			defer close(to)
			for {
				select {
				case z, ok := <-sizes:
					if !ok {
						return
					}
					select {
					case to <- proc.Size{Rows: z.Height, Cols: z.Width}:
					case <-ctx.Done():
						return
					}
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	return s
}

// forward serves port-forward.
func (s *server) forward(w http.ResponseWriter, r *http.Request, namespace, name string) {
	p := s.pod(w, r, namespace, name)
	if p == nil {
		return
	}
	options, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	portforward.ServePortForward(w, r, &forwarder{s.addressOf(p), s.dial}, p.Name, string(p.UID), options, idleStream,
		remotecommand.DefaultStreamCreationTimeout, portforward.SupportedProtocols)
}

// A forwarder forwards connections to the address of a pod.
type forwarder struct {
	ip   string
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// PortForward implements portforward.PortForwarder.
func (f *forwarder) PortForward(ctx context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	if err := kubelet.AwaitOpen(stream); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	c, err := f.dial(limited, "tcp", net.JoinHostPort(f.ip, strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	return kubelet.Forward(ctx, stream, c)
}
