package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/state"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Services resolves services to addresses. Implementations are safe for concurrent use.
type Services interface {
	// Resolve returns the address of a port of a service, HOST:PORT.
	Resolve(namespace, name string, port int32) (string, error)
}

// InState returns the services in a state.
func InState(s *state.State) Services { return stored{s, SlicesIn(s)} }

type stored struct {
	state  *state.State
	slices Slices
}

var (
	services       = schema.GroupResource{Resource: "services"}
	endpoints      = schema.GroupResource{Resource: "endpoints"}
	endpointSlices = schema.GroupResource{Group: discoveryv1.GroupName, Resource: "endpointslices"}
)

// Resolve implements Services. Error messages are those of kube-apiserver.
func (s stored) Resolve(namespace, name string, port int32) (string, error) {
	o, _ := s.state.Get(object.Key{Resource: services, Namespace: namespace, Name: name})
	if o == nil {
		return "", apierrors.NewNotFound(schema.GroupResource{Resource: "service"}, name)
	}
	var service corev1.Service
	if err := json.Unmarshal(o.Raw, &service); err != nil {
		return "", fmt.Errorf("read %s: %w", o.Key, err)
	}
	stated := portOf(&service, port)
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		if stated != nil && stated.TargetPort.IntVal != 0 {
			port = stated.TargetPort.IntVal
		}
		return join(service.Spec.ExternalName, port), nil
	}
	if stated == nil {
		return "", apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", port, name))
	}
	if address := s.endpoint(namespace, name, stated.Name); address != "" {
		return address, nil
	}
	switch ip := service.Spec.ClusterIP; ip {
	case corev1.ClusterIPNone:
		return "", errors.New(`cannot route to service with ClusterIP "None"`)
	case "":
		return "", apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", name))
	default:
		return join(ip, port), nil
	}
}

func portOf(s *corev1.Service, port int32) *corev1.ServicePort {
	for i := range s.Spec.Ports {
		if s.Spec.Ports[i].Port == port {
			return &s.Spec.Ports[i]
		}
	}
	return nil
}

// endpoint returns the address of one of the ready endpoints of a service's port, "" if there is
// none.
func (s stored) endpoint(namespace, name, port string) string {
	var ready []string
	for _, o := range s.slices.Of(namespace, name) {
		ready = appendSlice(ready, o.Raw, port)
	}
	if o, _ := s.state.Get(object.Key{Resource: endpoints, Namespace: namespace, Name: name}); o != nil && len(ready) == 0 {
		ready = appendEndpoints(ready, o.Raw, port)
	}
	if len(ready) == 0 {
		return ""
	}
	return ready[rand.IntN(len(ready))]
}

func appendSlice(to []string, raw []byte, port string) []string {
	var s discoveryv1.EndpointSlice
	if json.Unmarshal(raw, &s) != nil {
		return to
	}
	for _, p := range s.Ports {
		if p.Port == nil || deref(p.Name) != port {
			continue
		}
		for _, e := range s.Endpoints {
			if (e.Conditions.Ready == nil || *e.Conditions.Ready) && len(e.Addresses) > 0 {
				to = append(to, join(e.Addresses[0], *p.Port))
			}
		}
	}
	return to
}

func appendEndpoints(to []string, raw []byte, port string) []string {
	var e corev1.Endpoints // deprecated, but still served, and written by users
	if json.Unmarshal(raw, &e) != nil {
		return to
	}
	for _, subset := range e.Subsets {
		for _, p := range subset.Ports {
			if p.Name != port {
				continue
			}
			for _, a := range subset.Addresses {
				to = append(to, join(a.IP, p.Port))
			}
		}
	}
	return to
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func join(host string, port int32) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }

// noServices is a Services without services.
type noServices struct{}

func (noServices) Resolve(_, name string, _ int32) (string, error) {
	return "", apierrors.NewNotFound(schema.GroupResource{Resource: "service"}, name)
}
