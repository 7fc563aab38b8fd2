package stages

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/node/simulated"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kwok "sigs.k8s.io/kwok/pkg/apis/v1alpha1"
)

// Answers are what the kubelets of simulated nodes answer by KWOK's Logs, Execs, Attaches and
// PortForwards, and the Cluster kinds of each: see [ReadAnswers]. The object with the name and the
// namespace of a pod counts, or else the first one of a Cluster kind that selects the pod and has
// an entry for the container or port. Objects on the server count only with Options.AnswerObjects,
// before those of files.
type Answers struct {
	files  map[string][]*rule // by kind, without the prefix Cluster
	reader client.Reader      // nil: objects on the server do not count
}

var _ simulated.Answers = (*Answers)(nil)

// clusterPrefix is that of the kind for all pods, of each kind for one.
const clusterPrefix = "Cluster"

// answerTimeout limits the time for reading the rules of the server.
const answerTimeout = 10 * time.Second

// A rule is an object of one of these kinds.
type rule struct {
	pod      client.ObjectKey     // the name of the rule, which is that of a pod; without a namespace for a Cluster kind
	selector *kwok.ObjectSelector // of a Cluster kind; nil selects all
	entries  []answer
}

// An answer is for some containers or ports; for all if there are none.
type answer struct {
	containers []string
	ports      []int32

	log     *simulated.LogFile
	exec    *simulated.Commands
	forward *simulated.Forward
}

// ReadAnswers reads Logs, Execs, Attaches, PortForwards, and the Cluster kinds of each, from files
// and directories as [Read] does. It returns nil if there are none. An entry that cannot answer,
// such as a PortForward without a target, is an error.
func ReadAnswers(paths ...string) (*Answers, error) {
	objects, err := read(paths)
	if err != nil {
		return nil, err
	}
	all := &Answers{files: map[string][]*rule{}}
	for _, o := range objects {
		kind, r, err := ruleOf(o.Object)
		if err != nil {
			return nil, fmt.Errorf("read answers: %s: %s %s: %w", o.path, kind, o.GetName(), err)
		}
		if r == nil {
			continue
		}
		if slices.ContainsFunc(all.files[kind], func(other *rule) bool { return other.pod == r.pod }) {
			return nil, fmt.Errorf("read answers: %s: two objects of the kind %s have the name %s", o.path, kind, strings.TrimPrefix(r.pod.String(), "/"))
		}
		all.files[kind] = append(all.files[kind], r)
	}
	if len(all.files) == 0 {
		return nil, nil
	}
	return all, nil
}

// newRule returns an object of a kind; nil for another kind.
func newRule(kind string) metav1.Object {
	switch kind {
	case kwok.LogsKind:
		return &kwok.Logs{}
	case kwok.ClusterLogsKind:
		return &kwok.ClusterLogs{}
	case kwok.ExecKind:
		return &kwok.Exec{}
	case kwok.ClusterExecKind:
		return &kwok.ClusterExec{}
	case kwok.AttachKind:
		return &kwok.Attach{}
	case kwok.ClusterAttachKind:
		return &kwok.ClusterAttach{}
	case kwok.PortForwardKind:
		return &kwok.PortForward{}
	case kwok.ClusterPortForwardKind:
		return &kwok.ClusterPortForward{}
	}
	return nil
}

// ruleOf returns the rule of an object, and its kind without the prefix Cluster; nil for an object
// of another kind.
func ruleOf(o metav1.Object) (kind string, r *rule, err error) {
	r = &rule{pod: client.Key(o.GetNamespace(), o.GetName())}
	namespaced := true
	switch o := o.(type) {
	case *kwok.Logs:
		kind, err = kwok.LogsKind, r.addLogs(o.Spec.Logs)
	case *kwok.ClusterLogs:
		kind, namespaced, r.selector, err = kwok.LogsKind, false, o.Spec.Selector, r.addLogs(o.Spec.Logs)
	case *kwok.Exec:
		kind, err = kwok.ExecKind, r.addExecs(o.Spec.Execs)
	case *kwok.ClusterExec:
		kind, namespaced, r.selector, err = kwok.ExecKind, false, o.Spec.Selector, r.addExecs(o.Spec.Execs)
	case *kwok.Attach:
		kind, err = kwok.AttachKind, r.addAttaches(o.Spec.Attaches)
	case *kwok.ClusterAttach:
		kind, namespaced, r.selector, err = kwok.AttachKind, false, o.Spec.Selector, r.addAttaches(o.Spec.Attaches)
	case *kwok.PortForward:
		kind, err = kwok.PortForwardKind, r.addForwards(o.Spec.Forwards)
	case *kwok.ClusterPortForward:
		kind, namespaced, r.selector, err = kwok.PortForwardKind, false, o.Spec.Selector, r.addForwards(o.Spec.Forwards)
	default:
		return "", nil, nil
	}
	switch {
	case !namespaced:
		r.pod.Namespace = ""
	case r.pod.Namespace == "":
		r.pod.Namespace = metav1.NamespaceDefault
	}
	return kind, r, err
}

func (r *rule) addLogs(all []kwok.Log) error {
	for i := range all {
		file, err := pathOf(all[i].LogsFile)
		previous, err2 := pathOf(all[i].PreviousLogsFile)
		if err := errors.Join(err, err2); err != nil {
			return fmt.Errorf("spec.logs[%d]: %w", i, err)
		}
		r.entries = append(r.entries, answer{containers: all[i].Containers, log: &simulated.LogFile{Path: file, Previous: previous}})
	}
	return nil
}

func (r *rule) addAttaches(all []kwok.AttachConfig) error {
	for i := range all {
		file, err := pathOf(all[i].LogsFile)
		if err == nil && file == "" {
			err = errors.New("logsFile must be set")
		}
		if err != nil {
			return fmt.Errorf("spec.attaches[%d]: %w", i, err)
		}
		r.entries = append(r.entries, answer{containers: all[i].Containers, log: &simulated.LogFile{Path: file}})
	}
	return nil
}

func (r *rule) addExecs(all []kwok.ExecTarget) error {
	for i := range all {
		local := all[i].Local
		if local == nil {
			return fmt.Errorf("spec.execs[%d].local must be set", i)
		}
		c := &simulated.Commands{Dir: local.WorkDir}
		for _, e := range local.Envs {
			c.Env = append(c.Env, e.Name+"="+e.Value)
		}
		if s := local.SecurityContext; s != nil {
			c.User, c.Group = s.RunAsUser, s.RunAsGroup
		}
		r.entries = append(r.entries, answer{containers: all[i].Containers, exec: c})
	}
	return nil
}

func (r *rule) addForwards(all []kwok.Forward) error {
	for i := range all {
		f := &simulated.Forward{Command: all[i].Command}
		switch to := all[i].Target; {
		case len(f.Command) > 0:
		case to == nil || to.Address == "" || to.Port <= 0 || to.Port > 65535:
			return fmt.Errorf("spec.forwards[%d]: command, or target with address and port, must be set", i)
		default:
			f.Address = net.JoinHostPort(to.Address, strconv.Itoa(int(to.Port)))
		}
		r.entries = append(r.entries, answer{ports: all[i].Ports, forward: f})
	}
	return nil
}

// pathOf returns an absolute path. One that begins with ~/ is in the home directory, as with KWOK.
func pathOf(file *string) (string, error) {
	if file == nil || *file == "" {
		return "", nil
	}
	if rest, found := strings.CutPrefix(*file, "~/"); found {
		home, err := os.UserHomeDir()
		return filepath.Join(home, rest), err
	}
	return filepath.Abs(*file)
}

// find returns the entry of a container or a port: the one that names it, or else the first one for
// all.
func (r *rule) find(container string, port int32) *answer {
	var other *answer
	for i := range r.entries {
		e := &r.entries[i]
		switch {
		case slices.Contains(e.containers, container) || slices.Contains(e.ports, port):
			return e
		case len(e.containers)+len(e.ports) == 0 && other == nil:
			other = e
		}
	}
	return other
}

// matches reports whether a rule of a Cluster kind selects a pod.
func (r *rule) matches(p *corev1.Pod) bool { return r.pod.Namespace == "" && selects(r.selector, p) }

// find returns the answer of a kind for a pod; nil if there is none. An object that is for the pod
// alone, and has none, is an error.
func (a *Answers) find(kind string, p *corev1.Pod, container string, port int32) (*answer, error) {
	all := a.files[kind]
	if a.reader != nil {
		stored, err := a.stored(kind, p)
		if err != nil {
			return nil, err
		}
		all = slices.Concat(stored, all)
	}
	for _, r := range all {
		if r.pod != client.ObjectKeyFromObject(p) {
			continue
		}
		if e := r.find(container, port); e != nil {
			return e, nil
		}
		if kind == kwok.PortForwardKind {
			return nil, fmt.Errorf("the %s of pod %q has no entry for port %d", kind, p.Name, port)
		}
		return nil, fmt.Errorf("the %s of pod %q has no entry for container %q", kind, p.Name, container)
	}
	for _, r := range all {
		if r.matches(p) {
			if e := r.find(container, port); e != nil {
				return e, nil
			}
		}
	}
	return nil, nil
}

// stored reads the rules of a kind on the server: that of a pod, and those of the Cluster kind,
// which may both be undefined there.
func (a *Answers) stored(kind string, p *corev1.Pod) ([]*rule, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	own := newObject(kwok.GroupVersion.WithKind(kind)).(*unstructured.Unstructured)
	var found []unstructured.Unstructured
	err := a.reader.Get(ctx, client.ObjectKeyFromObject(p), own)
	if err == nil {
		found = append(found, *own)
	} else if !isAbsent(err) {
		return nil, err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kwok.GroupVersion.WithKind(clusterPrefix + kind + "List"))
	if err := a.reader.List(ctx, list); err == nil {
		found = append(found, list.Items...)
	} else if !isAbsent(err) {
		return nil, err
	}
	var all []*rule
	for i := range found {
		o := newRule(found[i].GetKind())
		if o == nil {
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found[i].Object, o); err != nil {
			return nil, fmt.Errorf("%s %s: %w", found[i].GetKind(), found[i].GetName(), err)
		}
		_, r, err := ruleOf(o)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", found[i].GetKind(), found[i].GetName(), err)
		}
		all = append(all, r)
	}
	return all, nil
}

// isAbsent reports whether an object, or its kind, does not exist.
func isAbsent(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }

// Log implements simulated.Answers.
func (a *Answers) Log(p *corev1.Pod, container string) (*simulated.LogFile, error) {
	e, err := a.find(kwok.LogsKind, p, container, 0)
	if e == nil {
		return nil, err
	}
	return e.log, nil
}

// Attach implements simulated.Answers.
func (a *Answers) Attach(p *corev1.Pod, container string) (*simulated.LogFile, error) {
	e, err := a.find(kwok.AttachKind, p, container, 0)
	if e == nil {
		return nil, err
	}
	return e.log, nil
}

// Exec implements simulated.Answers.
func (a *Answers) Exec(p *corev1.Pod, container string) (*simulated.Commands, error) {
	e, err := a.find(kwok.ExecKind, p, container, 0)
	if e == nil {
		return nil, err
	}
	return e.exec, nil
}

// Forward implements simulated.Answers.
func (a *Answers) Forward(p *corev1.Pod, port int32) (*simulated.Forward, error) {
	e, err := a.find(kwok.PortForwardKind, p, "", port)
	if e == nil {
		return nil, err
	}
	return e.forward, nil
}
