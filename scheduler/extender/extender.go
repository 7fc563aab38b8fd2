// Package extender calls extenders of the scheduler: HTTP servers that filter and score nodes,
// choose victims of preemption and bind pods, by the types of k8s.io/kube-scheduler/extender/v1.
//
//	e, err := extender.New(configuration.Extenders[0])
//	...
//	result, err := e.Filter(ctx, pod, nodes)
//
// A call ends with its context, or after the time limit of the extender. What an extender returns
// is validated: it may select among the nodes and pods that it was sent, nothing else. The package
// has no goroutine of its own; CloseIdle ends those of connections.
package extender

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// DefaultTimeout is the time limit of a call if the configuration sets none.
const DefaultTimeout = 5 * time.Second

// maxResponse is the maximum size of a response, enough for some thousand nodes.
const maxResponse = 128 << 20

// An Extender is a client of an extender. Its methods are safe for concurrent use.
type Extender struct {
	config configv1.Extender
	client *http.Client
}

// New returns the client of an extender. It reads the files of the TLS configuration.
func New(c configv1.Extender) (*Extender, error) {
	t, err := transport(&c)
	if err != nil {
		return nil, err
	}
	return &Extender{config: c, client: &http.Client{Transport: t, Timeout: cmp.Or(c.HTTPTimeout.Duration, DefaultTimeout)}}, nil
}

// transport returns the connections to an extender. As in kube-scheduler, those with TLS are not
// verified without a CA.
func transport(c *configv1.Extender) (*http.Transport, error) {
	var cfg rest.Config
	if t := c.TLSConfig; t != nil {
		cfg.TLSClientConfig = rest.TLSClientConfig{
			Insecure: t.Insecure, ServerName: t.ServerName, CertFile: t.CertFile, KeyFile: t.KeyFile, CAFile: t.CAFile,
			CertData: t.CertData, KeyData: t.KeyData, CAData: t.CAData,
		}
	}
	if c.EnableHTTPS && len(cfg.CAFile) == 0 && len(cfg.CAData) == 0 {
		cfg.Insecure = true
	}
	tls, err := rest.TLSConfigFor(&cfg)
	if err != nil {
		return nil, err
	}
	return utilnet.SetTransportDefaults(&http.Transport{TLSClientConfig: tls}), nil
}

// CloseIdle closes the connections without a call.
func (e *Extender) CloseIdle() { e.client.CloseIdleConnections() }

// Name returns the URL.
func (e *Extender) Name() string { return e.config.URLPrefix }

// Ignorable reports whether pods are scheduled if the extender fails.
func (e *Extender) Ignorable() bool { return e.config.Ignorable }

// Filters reports whether the extender filters nodes.
func (e *Extender) Filters() bool { return e.config.FilterVerb != "" }

// Prioritizes reports whether the extender scores nodes.
func (e *Extender) Prioritizes() bool { return e.config.PrioritizeVerb != "" }

// Preempts reports whether the extender chooses victims of preemption.
func (e *Extender) Preempts() bool { return e.config.PreemptVerb != "" }

// Binds reports whether the extender binds pods.
func (e *Extender) Binds() bool { return e.config.BindVerb != "" }

// Interested reports whether the extender is called for a pod: if it manages resources, the pod
// must name one of them.
func (e *Extender) Interested(p *corev1.Pod) bool {
	if len(e.config.ManagedResources) == 0 {
		return true
	}
	for _, containers := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range containers {
			for _, r := range e.config.ManagedResources {
				_, requested := containers[i].Resources.Requests[corev1.ResourceName(r.Name)]
				_, limited := containers[i].Resources.Limits[corev1.ResourceName(r.Name)]
				if requested || limited {
					return true
				}
			}
		}
	}
	return false
}

// A Filtered is the result of Filter.
type Filtered struct {
	Feasible map[string]bool // names of nodes
	// Failed and Unresolvable are the reasons of other nodes, by their names. Preemption may help on
	// those in Failed.
	Failed, Unresolvable map[string]string
}

// Filter asks which of the nodes are feasible for a pod.
func (e *Extender) Filter(ctx context.Context, p *corev1.Pod, nodes []*corev1.Node) (*Filtered, error) {
	var result extenderv1.ExtenderFilterResult
	if err := e.send(ctx, e.config.FilterVerb, e.argsOf(p, nodes), &result); err != nil {
		return nil, err
	}
	if result.Error != "" {
		return nil, errors.New(result.Error)
	}
	var names []string
	switch {
	case e.config.NodeCacheCapable && result.NodeNames != nil:
		names = *result.NodeNames
	case result.Nodes != nil:
		for i := range result.Nodes.Items {
			names = append(names, result.Nodes.Items[i].Name)
		}
	}
	sent := map[string]bool{}
	for _, n := range nodes {
		sent[n.Name] = true
	}
	f := &Filtered{Feasible: map[string]bool{}, Failed: result.FailedNodes, Unresolvable: result.FailedAndUnresolvableNodes}
	for _, name := range names {
		if !sent[name] {
			return nil, fmt.Errorf("extender %q claims a filtered node %q which is not found in the input node list", e.Name(), name)
		}
		f.Feasible[name] = true
	}
	return f, nil
}

// argsOf returns the arguments about nodes: their names if the extender has a cache of nodes.
func (e *Extender) argsOf(p *corev1.Pod, nodes []*corev1.Node) *extenderv1.ExtenderArgs {
	args := &extenderv1.ExtenderArgs{Pod: p}
	if e.config.NodeCacheCapable {
		names := make([]string, len(nodes))
		for i, n := range nodes {
			names[i] = n.Name
		}
		args.NodeNames = &names
		return args
	}
	args.Nodes = &corev1.NodeList{}
	for _, n := range nodes {
		args.Nodes.Items = append(args.Nodes.Items, *n)
	}
	return args
}

// scale makes the scores of extenders comparable with those of plugins, which are up to 100.
const scale = 100 / extenderv1.MaxExtenderPriority

// maxScore limits scores so that their sums do not overflow.
const maxScore = 1 << 40

// Prioritize returns what is added to the scores of nodes, by their names.
func (e *Extender) Prioritize(ctx context.Context, p *corev1.Pod, nodes []*corev1.Node) (map[string]int64, error) {
	var result extenderv1.HostPriorityList
	if err := e.send(ctx, e.config.PrioritizeVerb, e.argsOf(p, nodes), &result); err != nil {
		return nil, err
	}
	scores := map[string]int64{}
	for _, r := range result {
		weighted := min(e.config.Weight, maxScore) * scale
		scores[r.Host] += max(min(r.Score, maxScore/weighted), -maxScore/weighted) * weighted
	}
	return scores, nil
}

// Bind binds a pod to a node.
func (e *Extender) Bind(ctx context.Context, p *corev1.Pod, node string) error {
	var result extenderv1.ExtenderBindingResult
	args := &extenderv1.ExtenderBindingArgs{PodName: p.Name, PodNamespace: p.Namespace, PodUID: p.UID, Node: node}
	if err := e.send(ctx, e.config.BindVerb, args, &result); err != nil {
		return err
	}
	if result.Error != "" {
		return errors.New(result.Error)
	}
	return nil
}

// send sends a request.
func (e *Extender) send(ctx context.Context, verb string, args, result any) error {
	data, err := json.Marshal(args)
	if err != nil {
		return err
	}
	url := strings.TrimRight(e.config.URLPrefix, "/") + "/" + verb
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(data))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := e.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // nothing is left to read
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("failed %v with extender at URL %v, code %v", verb, url, response.StatusCode)
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxResponse)).Decode(result); err != nil {
		return fmt.Errorf("extender at URL %v: decode response: %w", url, err)
	}
	return nil
}
