package endpointslicemirroring

import (
	"cmp"
	"maps"
	"slices"

	"github.com/kapok-dev/kapok/controllers/internal/subsets"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/endpointslice/util"
	netutils "k8s.io/utils/net"
)

// A key tells slices of one Service apart: each has addresses of one type with one set of ports.
type key struct {
	family discoveryv1.AddressType
	ports  util.PortMapKey
}

func compareKeys(a, b key) int {
	return cmp.Or(cmp.Compare(a.family, b.family), cmp.Compare(a.ports, b.ports))
}

// content is the desired content of a slice.
type content struct {
	ports     []discoveryv1.EndpointPort
	endpoints []discoveryv1.Endpoint
}

// copies returns the contents of the slices for Endpoints, how many of their addresses are skipped
// because a subset has too many, and how many because they are no IPs.
func copies(e *corev1.Endpoints) (all map[key]*content, skipped, invalid int) {
	all = map[key]*content{}
	for _, subset := range subsets.Repack(e.Subsets) {
		ports := portsOf(subset)
		hash := util.NewPortMapKey(ports)
		room := most
		add := func(addresses []corev1.EndpointAddress, ready bool) {
			for _, a := range addresses {
				if room == 0 {
					skipped++
					continue
				}
				endpoint, family, ok := endpointOf(a, ready)
				if !ok {
					invalid++
					continue
				}
				room--
				k := key{family: family, ports: hash}
				if all[k] == nil {
					all[k] = &content{ports: ports}
				}
				all[k].endpoints = append(all[k].endpoints, endpoint)
			}
		}
		add(subset.Addresses, true)
		add(subset.NotReadyAddresses, false)
	}
	return all, skipped, invalid
}

func portsOf(s corev1.EndpointSubset) []discoveryv1.EndpointPort {
	ports := []discoveryv1.EndpointPort{}
	for _, p := range s.Ports {
		ports = append(ports, discoveryv1.EndpointPort{Name: new(p.Name), Port: new(p.Port), Protocol: new(p.Protocol), AppProtocol: p.AppProtocol})
	}
	return ports
}

func endpointOf(a corev1.EndpointAddress, ready bool) (e discoveryv1.Endpoint, family discoveryv1.AddressType, ok bool) {
	ip := netutils.ParseIPSloppy(a.IP)
	if ip == nil {
		return e, "", false
	}
	if family = discoveryv1.AddressTypeIPv4; ip.To4() == nil {
		family = discoveryv1.AddressTypeIPv6
	}
	e = discoveryv1.Endpoint{
		Addresses: []string{ip.String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		NodeName: a.NodeName, TargetRef: a.TargetRef,
	}
	if a.Hostname != "" {
		e.Hostname = &a.Hostname
	}
	return e, family, true
}

// writes are slices to create, update and delete.
type writes struct{ create, update, delete []*discoveryv1.EndpointSlice }

// plan returns the writes that make the existing slices hold the desired contents, one slice for
// each. A slice that is no longer needed becomes another one with addresses of its type.
func plan(e *corev1.Endpoints, desired map[key]*content, existing []*discoveryv1.EndpointSlice) (w writes) {
	byKey := map[key][]*discoveryv1.EndpointSlice{}
	for _, s := range existing {
		k := key{family: s.AddressType, ports: util.NewPortMapKey(s.Ports)}
		byKey[k] = append(byKey[k], s)
	}
	for _, k := range slices.SortedFunc(maps.Keys(desired), compareKeys) {
		next := sliceOf(e, k.family, desired[k])
		have := byKey[k]
		delete(byKey, k)
		if len(have) == 0 {
			w.create = append(w.create, next)
			continue
		}
		w.delete = append(w.delete, have[1:]...)
		if !holds(have[0], next) {
			next.GenerateName, next.Name = "", have[0].Name
			w.update = append(w.update, next)
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(byKey), compareKeys) {
		w.delete = append(w.delete, byKey[k]...)
	}
	w.recycle()
	if e.DeletionTimestamp != nil {
		w.create = nil
	}
	return w
}

// recycle turns pairs of a creation and a deletion into updates.
func (w *writes) recycle() {
	w.create = slices.DeleteFunc(w.create, func(s *discoveryv1.EndpointSlice) bool {
		i := slices.IndexFunc(w.delete, func(old *discoveryv1.EndpointSlice) bool { return old.AddressType == s.AddressType })
		if i < 0 {
			return false
		}
		s.GenerateName, s.Name = "", w.delete[i].Name
		w.update = append(w.update, s)
		w.delete = slices.Delete(w.delete, i, i+1)
		return true
	})
}

// holds reports whether a slice has the content, labels, annotations and owner of another.
func holds(s, want *discoveryv1.EndpointSlice) bool {
	if len(s.Endpoints) != len(want.Endpoints) || !maps.Equal(s.Labels, want.Labels) || !maps.Equal(s.Annotations, want.Annotations) ||
		len(s.OwnerReferences) != 1 || s.OwnerReferences[0].UID != want.OwnerReferences[0].UID {
		return false
	}
	return equality.Semantic.DeepEqual(sorted(s.Endpoints), sorted(want.Endpoints))
}

// sorted returns endpoints sorted by address, and by the object if several have one.
func sorted(all []discoveryv1.Endpoint) []discoveryv1.Endpoint {
	return slices.SortedFunc(slices.Values(all), func(a, b discoveryv1.Endpoint) int {
		return cmp.Or(slices.Compare(a.Addresses, b.Addresses), cmp.Compare(uidOf(a), uidOf(b)))
	})
}

func uidOf(e discoveryv1.Endpoint) types.UID {
	if e.TargetRef == nil {
		return ""
	}
	return e.TargetRef.UID
}

// sliceOf returns a new slice. It shares no memory with the Endpoints.
func sliceOf(e *corev1.Endpoints, family discoveryv1.AddressType, c *content) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.Namespace, GenerateName: e.Name + "-",
			Labels: map[string]string{}, Annotations: map[string]string{},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(e, corev1.SchemeGroupVersion.WithKind("Endpoints"))},
		},
		AddressType: family, Ports: c.ports, Endpoints: c.endpoints,
	}
	if len(s.GenerateName) > validation.DNS1123SubdomainMaxLength {
		s.GenerateName = e.Name
	}
	maps.Copy(s.Labels, e.Labels)
	s.Labels[discoveryv1.LabelServiceName], s.Labels[discoveryv1.LabelManagedBy] = e.Name, name
	maps.Copy(s.Annotations, e.Annotations)
	delete(s.Annotations, corev1.EndpointsLastChangeTriggerTime)
	delete(s.Annotations, corev1.LastAppliedConfigAnnotation)
	return s.DeepCopy()
}
