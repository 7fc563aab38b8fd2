package connect

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// The names in the path of a proxy are [SCHEME:]NAME[:PORT].

func (c *Connector) locateNode(r *resource.Request, o *object.Object, options resource.Tree) (*Target, error) {
	p, err := parametersOf[corev1.NodeProxyOptions](options)
	if err != nil {
		return nil, err
	}
	scheme, _, port, _ := utilnet.SplitSchemeNamePort(r.Name)
	if o == nil {
		return nil, notFound(r)
	}
	node, err := read[corev1.Node](o)
	if err != nil {
		return nil, err
	}
	if port == "" && c.kubeletInside(node.Name) != nil {
		t := proxied("http", node.Name, "", p.Path)
		t.Kubelet, t.Inside = true, true
		return t, nil
	}
	host, own, err := kubeletOf(node, c.options.AddressTypes)
	if err != nil {
		return nil, err
	}
	if err := c.allowed(host); err != nil {
		return nil, err
	}
	t := proxied("https", host, own, p.Path)
	if port == "" || port == own {
		t.Kubelet = true
		return t, nil
	}
	if err := checkPort(port); err != nil {
		return nil, err
	}
	return proxied(scheme, host, port, p.Path), nil
}

func (c *Connector) locatePod(r *resource.Request, pod *corev1.Pod, options resource.Tree) (*Target, error) {
	p, err := parametersOf[corev1.PodProxyOptions](options)
	if err != nil {
		return nil, err
	}
	scheme, _, port, _ := utilnet.SplitSchemeNamePort(r.Name)
	if port == "" {
		port = firstPort(pod)
	}
	if port != "" {
		if err := checkPort(port); err != nil {
			return nil, err
		}
	}
	host := ""
	if len(pod.Status.PodIPs) > 0 {
		host = pod.Status.PodIPs[0].IP
	}
	if _, err := netip.ParseAddr(host); err != nil {
		return nil, apierrors.NewBadRequest(errNotAllowed.Error())
	}
	if err := c.allowed(host); err != nil {
		return nil, err
	}
	return proxied(scheme, host, port, p.Path), nil
}

// firstPort returns the first port that a container of a pod declares, "" if there is none.
func firstPort(pod *corev1.Pod) string {
	for i := range pod.Spec.Containers {
		if ports := pod.Spec.Containers[i].Ports; len(ports) > 0 {
			return strconv.Itoa(int(ports[0].ContainerPort))
		}
	}
	return ""
}

func (c *Connector) locateService(r *resource.Request, options resource.Tree) (*Target, error) {
	p, err := parametersOf[corev1.ServiceProxyOptions](options)
	if err != nil {
		return nil, err
	}
	scheme, name, port, _ := utilnet.SplitSchemeNamePort(r.Name)
	if number, err := strconv.ParseInt(port, 10, 64); err == nil {
		if port, err = c.nameOfPort(r, name, number); err != nil {
			return nil, err
		}
	}
	host, number, ok := c.endpoint(r.Namespace, name, port)
	if !ok {
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", name))
	}
	if err := checkPort(number); err != nil {
		return nil, err
	}
	if err := c.allowed(host); err != nil {
		return nil, err
	}
	return proxied(scheme, host, number, p.Path), nil
}

// nameOfPort returns the name of a port of a service.
func (c *Connector) nameOfPort(r *resource.Request, service string, number int64) (string, error) {
	o := c.get(r.Definition.Key(r.Namespace, service))
	if o == nil {
		return "", notFound(r)
	}
	s, err := read[corev1.Service](o)
	if err != nil {
		return "", err
	}
	for i := range s.Spec.Ports {
		if int64(s.Spec.Ports[i].Port) == number {
			return s.Spec.Ports[i].Name, nil
		}
	}
	return "", apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", number, service))
}

// endpoint returns the address of one of the ready endpoints of a service, chosen at random, of
// IPv4 if there is one. Only pods of the namespace are endpoints: a user who can write
// EndpointSlices must not be able to choose any address.
func (c *Connector) endpoint(namespace, service, port string) (host, number string, ok bool) {
	type address struct{ host, port string }
	var found, others []address
	for _, o := range c.slices.Of(namespace, service) {
		slice, err := read[discoveryv1.EndpointSlice](o)
		if err != nil {
			continue
		}
		for _, p := range slice.Ports {
			if p.Name == nil || *p.Name != port || p.Port == nil {
				continue
			}
			for i := range slice.Endpoints {
				e := &slice.Endpoints[i]
				if !ready(e) || !c.isPod(namespace, e) {
					continue
				}
				a := address{e.Addresses[0], strconv.Itoa(int(*p.Port))}
				if slice.AddressType == discoveryv1.AddressTypeIPv4 {
					found = append(found, a)
				} else {
					others = append(others, a)
				}
			}
		}
	}
	if len(found) == 0 {
		found = others
	}
	if len(found) == 0 {
		return "", "", false
	}
	one := found[rand.IntN(len(found))]
	return one.host, one.port, true
}

func ready(e *discoveryv1.Endpoint) bool {
	return len(e.Addresses) > 0 && (e.Conditions.Ready == nil || *e.Conditions.Ready)
}

var pods = schema.GroupResource{Resource: "pods"}

// isPod reports whether an endpoint is a pod that has its address.
func (c *Connector) isPod(namespace string, e *discoveryv1.Endpoint) bool {
	if e.TargetRef == nil || e.TargetRef.Namespace != namespace {
		return false
	}
	o := c.get(object.Key{Resource: pods, Namespace: namespace, Name: e.TargetRef.Name})
	if o == nil {
		return false
	}
	pod, err := read[corev1.Pod](o)
	return err == nil && slices.ContainsFunc(pod.Status.PodIPs, func(ip corev1.PodIP) bool { return ip.IP == e.Addresses[0] })
}

// allowed returns a Kubernetes API error if a host is an IP address that is not allowed.
func (c *Connector) allowed(host string) error {
	if err := c.guard.allowed(host); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// proxied returns the target of a proxy. Without a port it is that of the scheme.
func proxied(scheme, host, port, path string) *Target {
	if scheme == "" {
		scheme = "http"
	}
	u := &url.URL{Scheme: scheme, Host: host, Path: utilnet.JoinPreservingTrailingSlash("", path)}
	if port != "" {
		u.Host = net.JoinHostPort(host, port)
	} else if ip, err := netip.ParseAddr(host); err == nil && ip.Is6() {
		u.Host = "[" + host + "]"
	}
	return &Target{URL: u, Proxied: true}
}
