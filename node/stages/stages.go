// Package stages changes objects as KWOK's Stages say (kwok.x-k8s.io/v1alpha1), on Kapok or any
// other Kubernetes API server.
//
//	files, err := stages.Read("kwok/kustomize/stage/pod/general")
//	err = stages.Options{Nodes: simulated.Options{Nodes: 3}, Stages: files}.Add(mgr)
//
// A Stage selects objects of a kind, waits, and then patches, applies or deletes objects, and sends
// events. Its selectors, delays, weights and templates are evaluated by the libraries of KWOK, so
// that its files work unchanged. Stages come from Options.Stages and from the server, once it has
// the definition of the kind Stage; there a Stage replaces one of Options.Stages with its name.
//
// Stages of Pods apply to pods on simulated nodes, and stages of Nodes to simulated nodes (package
// simulated). While there is a Stage for one of these kinds, package simulated leaves its objects
// alone, but for the Leases of nodes. Stages of other kinds apply to all objects.
//
// # What differs from KWOK
//
//   - There are no built-in stages: without stages for pods, they behave as package simulated says.
//   - An object that stages change again and again without a delay is changed ever more slowly,
//     down to once a second.
//   - A step that fails is a Warning event of the object with the reason StageFailed, unless the
//     object is itself an Event. It is repeated if the server could not be reached or is busy, and
//     otherwise not before the object or the stage changes.
//   - A stage that is wrong, or whose kind does not exist or cannot be watched, is an event of the
//     Stage, or an error if it comes from a file. A Stage that becomes wrong stays as it was.
//
// # Goroutines and locks
//
// The manager owns a controller for the definition of Stages, one for the Stages, and one for each
// kind that has some. The set of stages and the plans of each kind have a lock each, which is not
// held while a request is sent or another lock is held. In a bubble of testing/synctest, delays
// pass in virtual time; choices by weight and jitter are random.
package stages

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/kapok-dev/kapok/controller"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/node/internal/kubelet"
	"github.com/kapok-dev/kapok/node/simulated"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	kwok "sigs.k8s.io/kwok/pkg/apis/v1alpha1"
)

// Options configure stages.
type Options struct {
	// Nodes are the simulated nodes. This package sets Yields and OnYields.
	Nodes simulated.Options
	// Stages are stages in addition to those on the server: see [Read].
	Stages []*kwok.Stage
	// Usages are what pods use, in place of their annotations: see [ReadUsages]. Nil: none. This
	// package then sets Nodes.Usage.
	Usages *Usages
	// Answers are what kubelets of the nodes answer, in place of the annotations of pods: see
	// [ReadAnswers]. Nil: none. This package then sets Nodes.Answers.
	Answers *Answers
	// AnswerObjects lets objects on the server answer as well: Logs, Execs, Attaches, PortForwards,
	// and the Cluster kinds of each. Users that may create them read the files that the user of this
	// process can read, and run programs as that user.
	AnswerObjects bool
}

// Validate returns an error that names the first invalid field and its rule.
func (o Options) Validate() error {
	if err := o.Nodes.Validate(); err != nil {
		return err
	}
	names := map[string]bool{}
	for i, s := range o.Stages {
		switch {
		case s.Name == "":
			return fmt.Errorf("stage %d has no name", i+1)
		case names[s.Name]:
			return fmt.Errorf("two stages have the name %q", s.Name)
		}
		names[s.Name] = true
		if _, err := compile(context.Background(), s); err != nil {
			return fmt.Errorf("stage %s: %w", s.Name, err)
		}
	}
	return nil
}

// Add adds the nodes and what plays the stages to a manager.
func (o Options) Add(m manager.Manager) error {
	if err := o.Validate(); err != nil {
		return err
	}
	known := newSet()
	o.Nodes.Yields, o.Nodes.OnYields = known.has, known.listen
	if o.Usages != nil {
		o.Nodes.Usage = func(p *corev1.Pod, container string) corev1.ResourceList {
			return o.Usages.of(m.GetClient(), m.GetLogger(), p, container)
		}
	}
	if a := o.Answers; a != nil || o.AnswerObjects {
		answers := &Answers{}
		if a != nil {
			answers.files = a.files
		}
		if o.AnswerObjects {
			answers.reader = m.GetAPIReader()
		}
		o.Nodes.Answers = answers
	}
	if err := o.Nodes.Add(m); err != nil {
		return err
	}
	discovered, err := discovery.NewDiscoveryClientForConfigAndClient(m.GetConfig(), m.GetHTTPClient())
	if err != nil {
		return err
	}
	d := &director{manager: m, discovery: discovered, nodes: o.Nodes, set: known, own: map[string]*kwok.Stage{}, players: map[kind]*player{}, reported: map[controller.Request]string{}}
	for _, s := range o.Stages {
		d.own[s.Name] = s
	}
	return d.add()
}

// Run runs the nodes and the stages, as [simulated.Options.Run] does. It is the method of
// kapok.Options.Controllers.
func (o Options) Run(ctx context.Context, cfg *rest.Config, log *slog.Logger, metrics *prometheus.Registry, elect bool) error {
	return kubelet.Run(ctx, cfg, log, metrics, elect, o.Add)
}
