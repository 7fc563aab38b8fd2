package endpoints

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/controllers/internal/pod"
	"github.com/kapok-dev/kapok/controllers/internal/subsets"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/endpointslice"
	"k8s.io/endpointslice/util"
	netutils "k8s.io/utils/net"
)

const (
	// managedBy is the label of Endpoints of this controller, and component its value.
	managedBy = "endpoints.kubernetes.io/managed-by"
	component = "endpoint-controller"
	// most is the maximum number of addresses in Endpoints.
	most = 1000
)

// subsetsOf returns the subsets of a Service with these pods.
func subsetsOf(s *corev1.Service, pods []*corev1.Pod) []corev1.EndpointSubset {
	var all []corev1.EndpointSubset
	add := func(p *corev1.Pod, a corev1.EndpointAddress, ports []corev1.EndpointPort) {
		subset := corev1.EndpointSubset{Ports: ports}
		if s.Spec.PublishNotReadyAddresses || pod.Ready(p) {
			subset.Addresses = []corev1.EndpointAddress{a}
		} else {
			subset.NotReadyAddresses = []corev1.EndpointAddress{a}
		}
		all = append(all, subset)
	}
	for _, p := range pods {
		if !util.ShouldPodBeInEndpoints(p, s.Spec.PublishNotReadyAddresses) {
			continue
		}
		a, ok := addressOf(s, p)
		if !ok {
			continue // the pod has no address of the family
		}
		if len(s.Spec.Ports) == 0 && s.Spec.ClusterIP == corev1.ClusterIPNone {
			add(p, a, nil)
		}
		for i := range s.Spec.Ports {
			of := &s.Spec.Ports[i]
			number, err := endpointslice.FindPort(p, of)
			if err != nil {
				continue // no container has a port of the name
			}
			add(p, a, []corev1.EndpointPort{{Name: of.Name, Port: int32(number), Protocol: of.Protocol, AppProtocol: of.AppProtocol}})
		}
	}
	return subsets.Repack(all)
}

// addressOf returns the address of a pod in the first family of a Service.
func addressOf(s *corev1.Service, p *corev1.Pod) (a corev1.EndpointAddress, ok bool) {
	v6 := netutils.IsIPv6String(p.Status.PodIP)
	switch {
	case len(s.Spec.IPFamilies) > 0:
		v6 = s.Spec.IPFamilies[0] == corev1.IPv6Protocol
	case s.Spec.ClusterIP != "" && s.Spec.ClusterIP != corev1.ClusterIPNone:
		v6 = netutils.IsIPv6String(s.Spec.ClusterIP)
	}
	for _, podIP := range p.Status.PodIPs {
		ip := netutils.ParseIPSloppy(podIP.IP)
		if netutils.IsIPv6(ip) != v6 {
			continue
		}
		a = corev1.EndpointAddress{
			IP: ip.String(), NodeName: new(p.Spec.NodeName),
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID},
		}
		if util.ShouldSetHostname(p, s) {
			a.Hostname = p.Spec.Hostname
		}
		return a, true
	}
	return a, false
}

// equality ignores the resourceVersions of pods: a change of one that endpoints do not show is no
// reason to write them.
var equality = conversion.EqualitiesOrDie(func(a, b corev1.ObjectReference) bool {
	a.ResourceVersion, b.ResourceVersion = "", ""
	return a == b
})

// upToDate reports whether Endpoints are those of a Service with these subsets. over reports
// whether addresses are left out.
func upToDate(e *corev1.Endpoints, s *corev1.Service, want []corev1.EndpointSubset, over bool) bool {
	if !equality.DeepEqual(e.Subsets, want) && !equality.DeepEqual(subsets.Repack(e.Subsets), want) {
		return false
	}
	if _, was := e.Annotations[corev1.EndpointsOverCapacity]; was != over {
		return false
	}
	return e.Labels[managedBy] == component && maps.Equal(ownLabels(e.Labels), ownLabels(s.Labels))
}

// ownLabels returns labels without those that the controller sets.
func ownLabels(of map[string]string) map[string]string {
	of = maps.Clone(of)
	delete(of, managedBy)
	delete(of, corev1.IsHeadlessService)
	return of
}

// fill sets the fields of Endpoints that the controller owns.
func fill(e *corev1.Endpoints, s *corev1.Service, want []corev1.EndpointSubset, over bool, changed time.Time) {
	e.Labels = map[string]string{}
	maps.Copy(e.Labels, s.Labels)
	e.Labels[managedBy] = component
	if delete(e.Labels, corev1.IsHeadlessService); s.Spec.ClusterIP == "" || s.Spec.ClusterIP == corev1.ClusterIPNone {
		e.Labels[corev1.IsHeadlessService] = ""
	}
	if e.Annotations == nil {
		e.Annotations = map[string]string{}
	}
	if delete(e.Annotations, corev1.EndpointsLastChangeTriggerTime); !changed.IsZero() {
		e.Annotations[corev1.EndpointsLastChangeTriggerTime] = changed.UTC().Format(time.RFC3339Nano)
	}
	if delete(e.Annotations, corev1.EndpointsOverCapacity); over {
		e.Annotations[corev1.EndpointsOverCapacity] = "truncated"
	}
	e.Subsets = want
}

func count(all []corev1.EndpointSubset) (n int) {
	for _, s := range all {
		n += len(s.Addresses) + len(s.NotReadyAddresses)
	}
	return n
}

// limited returns the subsets with the maximum number of addresses: ready ones before others, and
// in each subset by its share of all. over reports whether some are left out.
func limited(all []corev1.EndpointSubset) (limited []corev1.EndpointSubset, over bool) {
	if count(all) <= most {
		return all, false
	}
	ready := 0
	for _, s := range all {
		ready += len(s.Addresses)
	}
	list := func(s *corev1.EndpointSubset) *[]corev1.EndpointAddress { return &s.NotReadyAddresses }
	total, room := count(all)-ready, most-ready
	if ready > most {
		list = func(s *corev1.EndpointSubset) *[]corev1.EndpointAddress { return &s.Addresses }
		total, room = ready, most
	}
	left := room
	all = slices.Clone(all)
	for i := range all {
		if ready > most {
			all[i].NotReadyAddresses = nil
		}
		addresses := list(&all[i])
		share := int(math.Ceil(float64(len(*addresses)) / float64(total) * float64(room)))
		*addresses = (*addresses)[:min(share, left, len(*addresses))]
		left -= len(*addresses)
	}
	return all, true
}
