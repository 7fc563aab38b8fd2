package stages

import (
	"context"
	"errors"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/node/internal/kubelet"
	"github.com/kapok-dev/kapok/node/internal/podip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/kwok/pkg/utils/gotpl"
)

// A renderer renders templates for one object at a time, as KWOK's functions do not say for which
// node they are called.
type renderer struct {
	player   *player
	node     string // of the object
	renderer gotpl.Renderer
}

// ToText implements gotpl.Renderer.
func (r renderer) ToText(text string, original any) ([]byte, error) {
	r.player.rendering.Lock()
	defer r.player.rendering.Unlock()
	r.player.rendered = r.node
	out, err := r.renderer.ToText(text, original)
	return out, withoutOutput(err)
}

// ToJSON implements gotpl.Renderer.
func (r renderer) ToJSON(text string, original any) ([]byte, error) {
	r.player.rendering.Lock()
	defer r.player.rendering.Unlock()
	r.player.rendered = r.node
	out, err := r.renderer.ToJSON(text, original)
	return out, withoutOutput(err)
}

// withoutOutput returns an error of the library without the output that it appends, which may be
// that of another object.
func withoutOutput(err error) error {
	if cause := errors.Unwrap(err); cause != nil {
		return cause
	}
	return err
}

// nodeOf returns the name of the node of an object, "" if it has none.
func nodeOf(o client.Object) string {
	switch o := o.(type) {
	case *corev1.Pod:
		return o.Spec.NodeName
	case *corev1.Node:
		return o.Name
	}
	return ""
}

// functions returns the functions of templates that depend on the nodes. The others are those of
// KWOK's library. They run while rendering is locked.
func (p *player) functions() gotpl.FuncMap {
	return gotpl.FuncMap{
		"NodeName":    func() string { return p.rendered },
		"NodePort":    func() int { return kubelet.Port },
		"NodeIP":      func() string { return p.nodeIPs(p.rendered)[0] },
		"NodeIPWith":  func(node string) string { return p.nodeIPs(node)[0] },
		"NodeIPsWith": p.nodeIPs,
		"PodIPWith": func(node string, hostNetwork bool, uid, name, namespace string) string {
			if ips := p.podIPs(node, hostNetwork, uid, name, namespace); len(ips) > 0 {
				return ips[0]
			}
			return ""
		},
		"PodIPsWith": p.podIPs,
	}
}

// nodeIPs returns the addresses of a node, or the one that it gets.
func (p *player) nodeIPs(name string) (all []string) {
	if n := p.node(name); n != nil {
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP {
				all = append(all, a.Address)
			}
		}
	}
	if len(all) == 0 {
		all = append(all, p.nodes.NodeAddress(name).String())
	}
	return all
}

// podIPs returns the addresses of a pod; none if a range of its node is exhausted.
func (p *player) podIPs(node string, hostNetwork bool, uid, _, _ string) []string {
	if hostNetwork {
		return p.nodeIPs(node)
	}
	return p.addresses.Of(types.UID(uid), p.rangesOf(node))
}

// rangesOf returns the ranges of the pods on a node.
func (p *player) rangesOf(name string) []string {
	if n := p.node(name); n != nil {
		return podip.RangesOf(n)
	}
	return nil
}

// node returns a node from the cache; nil if it is not there. It must not be changed.
func (p *player) node(name string) *corev1.Node {
	var n corev1.Node
	if err := p.client.Get(context.Background(), client.Key("", name), &n, client.UnsafeDisableDeepCopy, client.Stale); err != nil {
		return nil
	}
	return &n
}
