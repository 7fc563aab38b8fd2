package connect

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/kapok-dev/kapok/client/typed"
	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// A Target is where a request goes, and how.
type Target struct {
	// URL is the address. For a log, exec, attach or portforward it has the path and the parameters of
	// the kubelet; for a proxy it has the path, and the parameters are those of the request.
	URL *url.URL
	// Kubelet says that the server is the kubelet of a node, to which this server authenticates
	// itself.
	Kubelet bool
	// Inside says that this is the kubelet of a node in this process: the host is the name of the
	// node.
	Inside bool
	// Unverified says that the certificate of the kubelet is not verified, on request of the client.
	Unverified bool
	// Proxied says that the client and the server speak to each other, and not the client with this
	// server: links in a response are changed so that they lead through the proxy.
	Proxied bool
	// Flush says that each part of a log is sent as it arrives.
	Flush bool
	// Name is that of the object in errors about a log.
	Name string
}

// Locate returns the target of a request whose parameters have been admitted. o is the object that
// it names, nil if that does not exist. The target is nil for the log of a pod that has no node
// yet: it is empty. Errors are Kubernetes API errors, or else internal errors.
func (c *Connector) Locate(r *resource.Request, o *object.Object, options resource.Tree) (*Target, error) {
	switch r.Definition.Plural + "/" + r.Subresource {
	case "nodes/proxy":
		return c.locateNode(r, o, options)
	case "services/proxy":
		return c.locateService(r, options)
	}
	if o == nil {
		return nil, notFound(r)
	}
	pod, err := read[corev1.Pod](o)
	if err != nil {
		return nil, err
	}
	switch r.Subresource {
	case "log":
		return c.locateLog(pod, options)
	case "exec", "attach":
		return c.locateStreams(r.Subresource, pod, options)
	case "portforward":
		return c.locatePorts(pod, options)
	case "proxy":
		return c.locatePod(r, pod, options)
	}
	return nil, fmt.Errorf("%s/%s is not a connection", r.Definition.Plural, r.Subresource)
}

func notFound(r *resource.Request) error {
	name := r.Name
	if r.Subresource == "proxy" {
		_, name, _, _ = utilnet.SplitSchemeNamePort(r.Name)
	}
	return apierrors.NewNotFound(r.GroupResource(), name)
}

// read decodes an object of the core group.
func read[T any](o *object.Object) (*T, error) {
	obj := new(T)
	if err := json.Unmarshal(o.Raw, obj); err != nil {
		return nil, fmt.Errorf("read %s: %w", o.Key, err)
	}
	return obj, nil
}

// parametersOf decodes admitted parameters.
func parametersOf[T any](options resource.Tree) (*T, error) {
	p := new(T)
	if err := typed.FromTree(options, p); err != nil {
		return nil, fmt.Errorf("read the parameters: %w", err)
	}
	return p, nil
}

// kubelet returns the target of a path of the kubelet of a pod's node. The path is not escaped.
func (c *Connector) kubelet(pod *corev1.Pod, query url.Values, path ...string) (*Target, error) {
	t := &Target{Kubelet: true, Name: pod.Name, URL: &url.URL{Path: "/" + strings.Join(path, "/"), RawQuery: query.Encode()}}
	if c.kubeletInside(pod.Spec.NodeName) != nil {
		t.Inside, t.URL.Scheme, t.URL.Host = true, "http", pod.Spec.NodeName
		return t, nil
	}
	host, port, err := c.node(pod.Spec.NodeName)
	if err != nil {
		return nil, err
	}
	t.URL.Scheme, t.URL.Host = "https", net.JoinHostPort(host, port)
	return t, nil
}

var nodes = schema.GroupResource{Resource: "nodes"}

// node returns the address of the kubelet of a node.
func (c *Connector) node(name string) (host, port string, err error) {
	o := c.get(object.Key{Resource: nodes, Name: name})
	if o == nil {
		return "", "", apierrors.NewNotFound(nodes, name)
	}
	node, err := read[corev1.Node](o)
	if err != nil {
		return "", "", err
	}
	return kubeletOf(node, c.options.AddressTypes)
}

// kubeletPort is the port of kubelets whose node does not say another.
const kubeletPort = 10250

// kubeletOf returns the address of the kubelet of a node: the first one of the type that is
// preferred most.
func kubeletOf(node *corev1.Node, preferred []corev1.NodeAddressType) (host, port string, err error) {
	for _, kind := range preferred {
		for _, a := range node.Status.Addresses {
			if a.Type != kind {
				continue
			}
			if !plausible(a.Address) {
				return "", "", apierrors.NewBadRequest(fmt.Sprintf("the address %q of node %s is neither an IP address nor a name", a.Address, node.Name))
			}
			number := node.Status.DaemonEndpoints.KubeletEndpoint.Port
			if number <= 0 {
				number = kubeletPort
			}
			port := strconv.Itoa(int(number))
			return a.Address, port, checkPort(port)
		}
	}
	return "", "", fmt.Errorf("no preferred addresses found; known addresses: %v", node.Status.Addresses)
}

// plausible reports whether a host is an IP address or could be a DNS name: it must not be able to
// change the meaning of a URL.
func plausible(host string) bool {
	if net.ParseIP(host) != nil {
		return true
	}
	return host != "" && strings.Trim(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._") == ""
}

// checkPort returns an error for text that is not the number of a port.
func checkPort(port string) error {
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return apierrors.NewBadRequest(fmt.Sprintf("port %q must be a number from 1 to 65535", port))
	}
	return nil
}

func (c *Connector) locateLog(pod *corev1.Pod, options resource.Tree) (*Target, error) {
	o, err := parametersOf[corev1.PodLogOptions](options)
	if err != nil {
		return nil, err
	}
	container, err := containerOf(pod, o.Container)
	if err != nil || pod.Spec.NodeName == "" {
		return nil, err
	}
	t, err := c.kubelet(pod, logQuery(o), "containerLogs", pod.Namespace, pod.Name, container)
	if err != nil {
		return nil, err
	}
	t.Unverified, t.Flush = o.InsecureSkipTLSVerifyBackend, o.Follow
	return t, nil
}

// logQuery returns the parameters of a kubelet for a log.
func logQuery(o *corev1.PodLogOptions) url.Values {
	query := url.Values{}
	for name, is := range map[string]bool{"follow": o.Follow, "previous": o.Previous, "timestamps": o.Timestamps} {
		if is {
			query.Set(name, "true")
		}
	}
	for name, n := range map[string]*int64{"sinceSeconds": o.SinceSeconds, "tailLines": o.TailLines, "limitBytes": o.LimitBytes} {
		if n != nil {
			query.Set(name, strconv.FormatInt(*n, 10))
		}
	}
	if o.SinceTime != nil {
		query.Set("sinceTime", o.SinceTime.UTC().Format("2006-01-02T15:04:05Z07:00"))
	}
	return query
}

func (c *Connector) locateStreams(path string, pod *corev1.Pod, options resource.Tree) (*Target, error) {
	// PodAttachOptions have the same fields except for the command.
	o, err := parametersOf[corev1.PodExecOptions](options)
	if err != nil {
		return nil, err
	}
	container, err := containerOf(pod, o.Container)
	if err != nil {
		return nil, err
	}
	if pod.Spec.NodeName == "" {
		return nil, noHost(pod)
	}
	return c.kubelet(pod, streamQuery(path, o), path, pod.Namespace, pod.Name, container)
}

// streamQuery returns the parameters of a kubelet for exec and attach.
func streamQuery(path string, o *corev1.PodExecOptions) url.Values {
	query := url.Values{}
	for name, is := range map[string]bool{
		corev1.ExecStdinParam: o.Stdin, corev1.ExecStdoutParam: o.Stdout, corev1.ExecStderrParam: o.Stderr, corev1.ExecTTYParam: o.TTY,
	} {
		if is {
			query.Set(name, "1")
		}
	}
	if path == "exec" && len(o.Command) > 0 {
		query[corev1.ExecCommandParam] = o.Command
	}
	return query
}

func (c *Connector) locatePorts(pod *corev1.Pod, options resource.Tree) (*Target, error) {
	o, err := parametersOf[corev1.PodPortForwardOptions](options)
	if err != nil {
		return nil, err
	}
	if pod.Spec.NodeName == "" {
		return nil, noHost(pod)
	}
	query := url.Values{}
	if len(o.Ports) > 0 {
		ports := make([]string, len(o.Ports))
		for i, p := range o.Ports {
			ports[i] = strconv.Itoa(int(p))
			if err := checkPort(ports[i]); err != nil {
				return nil, err
			}
		}
		query.Set(corev1.PortHeader, strings.Join(ports, ","))
	}
	return c.kubelet(pod, query, "portForward", pod.Namespace, pod.Name)
}

func noHost(pod *corev1.Pod) error {
	return apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", pod.Name))
}

// containerOf returns the container that a request names, or the only one of the pod.
func containerOf(pod *corev1.Pod, name string) (string, error) {
	var all []string // in the order in which Kubernetes visits them
	for i := range pod.Spec.InitContainers {
		all = append(all, pod.Spec.InitContainers[i].Name)
	}
	for i := range pod.Spec.Containers {
		all = append(all, pod.Spec.Containers[i].Name)
	}
	for i := range pod.Spec.EphemeralContainers {
		all = append(all, pod.Spec.EphemeralContainers[i].Name)
	}
	if name != "" {
		for _, known := range all {
			if known == name {
				return name, nil
			}
		}
		return "", apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", name, pod.Name))
	}
	switch len(pod.Spec.Containers) {
	case 0:
		return "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s", pod.Name))
	case 1:
		return pod.Spec.Containers[0].Name, nil
	}
	return "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s, choose one of: %s", pod.Name, all))
}
