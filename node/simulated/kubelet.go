package simulated

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/node/internal/kubelet"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/utils/exec"
)

const (
	// idleStream ends a stream on which nothing is sent, as in the kubelet.
	idleStream = 4 * time.Hour
	// followInterval is the time between two looks at a container whose log is followed.
	followInterval = time.Second
	// notFoundExit is the exit code of a shell for a program that does not exist.
	notFoundExit = 127
)

// A Kubelet answers what API servers ask of the kubelets of simulated nodes: logs, exec and attach.
// Its zero value answers once it is in the Options of a simulation that runs. It starts no
// goroutine of its own: streams end with their requests.
type Kubelet struct {
	readers atomic.Pointer[readers]
	answers atomic.Pointer[Answers]
}

// readers are the cache, and what reads from the server: a pod that another client knows to run
// must be found.
type readers struct{ cached, live client.Reader }

// Handler returns the handler of the kubelet of a node, nil if the node is not simulated.
func (k *Kubelet) Handler(node string) http.Handler {
	r := k.readers.Load()
	if r == nil {
		return nil
	}
	var n corev1.Node
	if err := r.cached.Get(context.Background(), client.Key("", node), &n, client.Stale); err != nil || !Runs(&n) {
		return nil
	}
	found := &nodeKubelet{reader: r.live, node: node}
	if a := k.answers.Load(); a != nil {
		found.answers = *a
	}
	return found
}

// nodeKubelet is the Kubelet of one node.
type nodeKubelet struct {
	reader  client.Reader
	node    string
	answers Answers // nil: annotations count
}

// ServeHTTP implements http.Handler. The paths are those of the kubelet.
func (k *nodeKubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case r.URL.Path == "/healthz":
		io.WriteString(w, "ok")
	case parts[0] == "containerLogs" && len(parts) == 4:
		k.log(w, r, parts[1], parts[2], parts[3])
	case (parts[0] == "exec" || parts[0] == "attach") && len(parts) == 4:
		k.stream(w, r, parts[0], parts[1], parts[2], parts[3])
	case parts[0] == "portForward" && len(parts) == 3:
		k.forward(w, r, parts[1], parts[2])
	default:
		http.NotFound(w, r)
	}
}

// pod returns a pod of the node, or responds with an error.
func (k *nodeKubelet) pod(w http.ResponseWriter, r *http.Request, namespace, name string) *corev1.Pod {
	p := &corev1.Pod{}
	err := k.reader.Get(r.Context(), client.Key(namespace, name), p)
	if err != nil && !apierrors.IsNotFound(err) {
		http.Error(w, fmt.Sprintf("read pod %q: %v", name, err), http.StatusInternalServerError)
		return nil
	}
	if err != nil || p.Spec.NodeName != k.node {
		http.Error(w, fmt.Sprintf("pod %q not found", name), http.StatusNotFound)
		return nil
	}
	return p
}

// behaviourOf returns how a container behaves.
func behaviourOf(p *corev1.Pod, container string) behaviour {
	s, err := simulationOf(p)
	if err != nil {
		return behaviour{}
	}
	return s.of(container)
}

// log responds with the log of a container.
func (k *nodeKubelet) log(w http.ResponseWriter, r *http.Request, namespace, name, container string) {
	p := k.pod(w, r, namespace, name)
	if p == nil {
		return
	}
	o, err := kubelet.ParseLogOptions(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	status := kubelet.StatusOf(p, container)
	began, running, err := kubelet.LoggedSince(p, status, container, o.Previous)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if k.answerLog(w, r, p, container, o, running) {
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	io.WriteString(w, format(&o, logOf(p, container), began))
	if !o.Follow || !running || o.Previous {
		return
	}
	_ = http.NewResponseController(w).Flush() // fails if the client has gone
	k.whileRuns(r.Context(), p, container, began)
}

// logOf returns what a container writes when it starts.
func logOf(p *corev1.Pod, container string) string {
	if text := behaviourOf(p, container).Logs; text != nil {
		return *text
	}
	return fmt.Sprintf("container %s of pod %s is simulated: set logs in its annotation %s\n", container, p.Name, SimulationAnnotation)
}

// whileRuns returns when a container no longer runs, or ctx ends.
func (k *nodeKubelet) whileRuns(ctx context.Context, p *corev1.Pod, container string, began metav1.Time) {
	ticks := time.NewTicker(followInterval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		if !k.runs(ctx, p, container, began) {
			return
		}
	}
}

// runs reports whether a container runs that began at a time.
func (k *nodeKubelet) runs(ctx context.Context, p *corev1.Pod, container string, began metav1.Time) bool {
	var now corev1.Pod
	if err := k.reader.Get(ctx, client.ObjectKeyFromObject(p), &now); err != nil || now.UID != p.UID {
		return false
	}
	s := kubelet.StatusOf(&now, container)
	return s != nil && s.State.Running != nil && s.State.Running.StartedAt.Equal(&began)
}

// format returns the part of a log that the options select. All its lines were written at one time,
// to the standard output.
func format(o *kubelet.LogOptions, log string, written metav1.Time) string {
	if log == "" || written.Time.Before(o.Since) || strings.EqualFold(o.Stream, "Stderr") {
		return ""
	}
	lines := strings.SplitAfter(log, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	if o.Tail >= 0 && len(lines) > o.Tail {
		lines = lines[len(lines)-o.Tail:]
	}
	var out strings.Builder
	for _, line := range lines {
		if o.Timestamps {
			out.WriteString(written.UTC().Format("2006-01-02T15:04:05.000000000Z07:00") + " ")
		}
		out.WriteString(line)
	}
	text := out.String()
	if o.Limit >= 0 && len(text) > o.Limit {
		text = text[:o.Limit]
	}
	return text
}

// stream serves exec and attach.
func (k *nodeKubelet) stream(w http.ResponseWriter, r *http.Request, verb, namespace, name, container string) {
	p := k.pod(w, r, namespace, name)
	if p == nil {
		return
	}
	status := kubelet.StatusOf(p, container)
	if status == nil || status.State.Running == nil {
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
	program := &program{nodeKubelet: k, pod: p, began: status.State.Running.StartedAt}
	if verb == "attach" {
		remotecommand.ServeAttach(w, r, program, p.Name, string(p.UID), container, streams, idleStream,
			remotecommand.DefaultStreamCreationTimeout, remotecommand.SupportedStreamingProtocols)
		return
	}
	remotecommand.ServeExec(w, r, program, p.Name, string(p.UID), container, r.URL.Query()["command"], streams, idleStream,
		remotecommand.DefaultStreamCreationTimeout, remotecommand.SupportedStreamingProtocols)
}

// A program is a process in a container.
type program struct {
	*nodeKubelet
	pod   *corev1.Pod
	began metav1.Time // of the container
}

// ExecInContainer implements remotecommand.Executor: it writes what the annotation has for a
// command.
func (p *program) ExecInContainer(
	ctx context.Context, _, _, container string, command []string, in io.Reader, stdout, stderr io.WriteCloser, tty bool, sizes <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	if p.answers != nil {
		if c, err := p.answers.Exec(p.pod, container); c != nil || err != nil {
			if err != nil {
				return err
			}
			return c.execute(ctx, command, in, writerOf(stdout), writerOf(stderr), tty, sizes)
		}
	}
	text := ""
	found := false
	if outputs := behaviourOf(p.pod, container).Exec; outputs != nil {
		if text, found = (*outputs)[strings.Join(command, " ")]; !found {
			text, found = (*outputs)["*"]
		}
	}
	if found {
		if stdout == nil {
			return nil
		}
		_, err := io.WriteString(stdout, text)
		return err
	}
	said := stderr
	if said == nil { // a terminal has one stream
		said = stdout
	}
	if said != nil {
		fmt.Fprintf(said, "container %s of pod %s is simulated, and has no program %q: set exec in its annotation %s\r\n", container, p.pod.Name, strings.Join(command, " "), SimulationAnnotation)
	}
	return exec.CodeExitError{Err: errors.New("command terminated with a non-zero exit code"), Code: notFoundExit}
}

// AttachContainer implements remotecommand.Attacher: it returns when the container no longer runs.
func (p *program) AttachContainer(ctx context.Context, _, _, container string, _ io.Reader, out, _ io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize) error {
	if p.answers != nil {
		if file, err := p.answers.Attach(p.pod, container); file != nil || err != nil {
			if err != nil {
				return err
			}
			o := kubelet.LogOptions{Follow: true, Limit: -1} // what is added from now on
			return readLogFile(ctx, file.Path, o, writerOf(out), p.ended(ctx, p.pod, container, false))
		}
	}
	p.whileRuns(ctx, p.pod, container, p.began)
	return nil
}
