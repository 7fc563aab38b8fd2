package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/kapok-dev/kapok/client"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// inherited are the variables of this process that containers get. Others may be secrets.
var inherited = []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR"}

// longestEnvironment is the maximum size of the environment of a container, in bytes. Linux limits
// environment and arguments together to a quarter of the stack, 2 MiB by default.
const longestEnvironment = 1 << 20

// missing is the error for a missing object or key, in the words of a kubelet.
type missing struct{ message string }

func (m missing) Error() string { return m.message }

// An environment makes the variables of containers of a pod.
type environment struct {
	ctx    context.Context
	reader client.Reader
	pod    *corev1.Pod
	node   *corev1.Node
	podIP  string
	hostIP string
	server string // host and port of the API server, "" if it has none
}

// withDefaults adds variables NAME=VALUE that are not set yet, or only inherited from this process:
// those of an image.
func withDefaults(env []string, defaults []string) []string {
	at := map[string]int{}
	for i, e := range env {
		name, _, _ := strings.Cut(e, "=")
		at[name] = i
	}
	for _, d := range defaults {
		name, value, _ := strings.Cut(d, "=")
		switch i, set := at[name]; {
		case name == "" || strings.Contains(d, "\x00"):
		case !set:
			at[name] = len(env)
			env = append(env, d)
		case slices.Contains(inherited, name) && env[i] == name+"="+os.Getenv(name):
			env[i] = name + "=" + value
		}
	}
	return env
}

// of returns the variables of a container, in the form NAME=VALUE, and a function with their
// values. Errors are those of the spec, or of a read.
func (e *environment) of(c *corev1.Container) (env []string, value func(string) (string, bool), err error) {
	values := map[string]string{}
	for _, name := range inherited {
		if v, ok := os.LookupEnv(name); ok {
			values[name] = v
		}
	}
	values["HOSTNAME"] = hostname(e.pod)
	values["POD_IP"], values["HOST"] = e.podIP, e.podIP
	if len(c.Ports) > 0 {
		values["PORT"] = strconv.Itoa(int(c.Ports[0].ContainerPort))
	}
	if err := e.services(values); err != nil {
		return nil, nil, err
	}
	for i := range c.EnvFrom {
		if err := e.from(&c.EnvFrom[i], values); err != nil {
			return nil, nil, err
		}
	}
	value = func(name string) (string, bool) {
		v, ok := values[name]
		return v, ok
	}
	for i := range c.Env {
		v := &c.Env[i]
		if v.ValueFrom == nil {
			values[v.Name] = expand(v.Value, value)
			continue
		}
		text, found, err := e.variable(c, v.ValueFrom)
		if err != nil {
			return nil, nil, err
		}
		if found {
			values[v.Name] = text
		}
	}
	size := 0
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if strings.ContainsAny(name, "=\x00") || strings.Contains(values[name], "\x00") {
			return nil, nil, missing{fmt.Sprintf("environment variable %q: name and value must not contain a zero byte, and the name no =", name)}
		}
		env = append(env, name+"="+values[name])
		size += len(name) + len(values[name]) + 2
	}
	if size > longestEnvironment {
		return nil, nil, missing{fmt.Sprintf("the environment has %d bytes: at most %d are possible", size, longestEnvironment)}
	}
	return env, value, nil
}

func hostname(p *corev1.Pod) string {
	if p.Spec.Hostname != "" {
		return p.Spec.Hostname
	}
	return p.Name
}

// services adds the variables for services, as a kubelet does.
func (e *environment) services(values map[string]string) error {
	if e.pod.Spec.EnableServiceLinks == nil || *e.pod.Spec.EnableServiceLinks {
		var list corev1.ServiceList
		if err := e.reader.List(e.ctx, &list, client.InNamespace(e.pod.Namespace)); err != nil {
			return err
		}
		for i := range list.Items {
			s := &list.Items[i]
			if ip := s.Spec.ClusterIP; ip == "" || ip == corev1.ClusterIPNone || len(s.Spec.Ports) == 0 {
				continue
			}
			links(s, values)
		}
	}
	// The cluster IP of the API server has port 443, at which only privileged processes can listen:
	// its own address is used.
	if host, port, err := net.SplitHostPort(e.server); err == nil {
		values["KUBERNETES_SERVICE_HOST"], values["KUBERNETES_SERVICE_PORT"] = host, port
		values["KUBERNETES_SERVICE_PORT_HTTPS"] = port
	}
	return nil
}

// links adds the variables for a Service that has a cluster IP.
func links(s *corev1.Service, values map[string]string) {
	variable := func(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }
	name, ip := variable(s.Name), s.Spec.ClusterIP
	values[name+"_SERVICE_HOST"] = ip
	values[name+"_SERVICE_PORT"] = strconv.Itoa(int(s.Spec.Ports[0].Port))
	for i, p := range s.Spec.Ports {
		port, protocol := strconv.Itoa(int(p.Port)), cmp.Or(p.Protocol, corev1.ProtocolTCP)
		url := strings.ToLower(string(protocol)) + "://" + net.JoinHostPort(ip, port)
		if p.Name != "" {
			values[name+"_SERVICE_PORT_"+variable(p.Name)] = port
		}
		if i == 0 {
			values[name+"_PORT"] = url
		}
		link := name + "_PORT_" + port + "_" + string(protocol)
		values[link] = url
		values[link+"_PROTO"], values[link+"_PORT"], values[link+"_ADDR"] = strings.ToLower(string(protocol)), port, ip
	}
}

// from adds the variables of a ConfigMap or Secret.
func (e *environment) from(f *corev1.EnvFromSource, values map[string]string) error {
	var data map[string]string
	var err error
	var optional *bool
	switch {
	case f.ConfigMapRef != nil:
		data, err = e.data("configmap", f.ConfigMapRef.Name)
		optional = f.ConfigMapRef.Optional
	case f.SecretRef != nil:
		data, err = e.data("secret", f.SecretRef.Name)
		optional = f.SecretRef.Optional
	}
	if errors.As(err, &missing{}) && optional != nil && *optional {
		return nil
	}
	if err != nil {
		return err
	}
	for key, v := range data {
		if name := f.Prefix + key; len(validation.IsEnvVarName(name)) == 0 {
			values[name] = v
		}
	}
	return nil
}

// data returns what a ConfigMap or Secret holds.
func (e *environment) data(kind, name string) (map[string]string, error) {
	data := map[string]string{}
	key := client.Key(e.pod.Namespace, name)
	if kind == "secret" {
		var s corev1.Secret
		if err := e.reader.Get(e.ctx, key, &s); err != nil {
			return nil, absent(err, kind, name)
		}
		for k, v := range s.Data {
			data[k] = string(v)
		}
		return data, nil
	}
	var m corev1.ConfigMap
	if err := e.reader.Get(e.ctx, key, &m); err != nil {
		return nil, absent(err, kind, name)
	}
	maps.Copy(data, m.Data)
	return data, nil
}

func absent(err error, kind, name string) error {
	if client.IgnoreNotFound(err) == nil {
		return missing{fmt.Sprintf("%s %q not found", kind, name)}
	}
	return err
}

// variable returns the value of a variable. found is false for an optional one that is missing.
func (e *environment) variable(c *corev1.Container, from *corev1.EnvVarSource) (text string, found bool, err error) {
	switch {
	case from.FieldRef != nil:
		text, err = e.field(from.FieldRef.FieldPath)
		return text, err == nil, err
	case from.ResourceFieldRef != nil:
		text, err = e.resource(c, from.ResourceFieldRef)
		return text, err == nil, err
	case from.ConfigMapKeyRef != nil:
		r := from.ConfigMapKeyRef
		return e.key("configmap", "configMap", r.Name, r.Key, r.Optional)
	case from.SecretKeyRef != nil:
		r := from.SecretKeyRef
		return e.key("secret", "Secret", r.Name, r.Key, r.Optional)
	}
	return "", false, missing{"a source of environment variables is not supported by process nodes"}
}

func (e *environment) key(kind, word, name, key string, optional *bool) (string, bool, error) {
	data, err := e.data(kind, name)
	text, has := data[key]
	if err == nil && !has {
		if kind == "configmap" {
			word = "ConfigMap"
		}
		err = missing{fmt.Sprintf("couldn't find key %s in %s %s/%s", key, word, e.pod.Namespace, name)}
	}
	if errors.As(err, &missing{}) && optional != nil && *optional {
		return "", false, nil
	}
	return text, err == nil, err
}

// field returns a field of the pod.
func (e *environment) field(path string) (string, error) {
	p := e.pod
	if name, key, ok := subscript(path); ok {
		switch name {
		case "metadata.labels":
			return p.Labels[key], nil
		case "metadata.annotations":
			return p.Annotations[key], nil
		}
	}
	switch path {
	case "metadata.name":
		return p.Name, nil
	case "metadata.namespace":
		return p.Namespace, nil
	case "metadata.uid":
		return string(p.UID), nil
	case "metadata.labels":
		return lines(p.Labels), nil
	case "metadata.annotations":
		return lines(p.Annotations), nil
	case "spec.nodeName":
		return p.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return p.Spec.ServiceAccountName, nil
	case "status.hostIP", "status.hostIPs":
		return e.hostIP, nil
	case "status.podIP", "status.podIPs":
		return e.podIP, nil
	}
	return "", missing{fmt.Sprintf("field %q of a pod is not supported", path)}
}

// subscript splits metadata.labels['key'].
func subscript(path string) (name, key string, ok bool) {
	name, rest, ok := strings.Cut(path, "['")
	key, closed := strings.CutSuffix(rest, "']")
	return name, key, ok && closed
}

// lines is a map as it is written for fields of all labels or annotations.
func lines(m map[string]string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		all = append(all, fmt.Sprintf("%s=%q", key, m[key]))
	}
	return strings.Join(all, "\n")
}

// resource returns a resource of a container of the pod.
func (e *environment) resource(c *corev1.Container, r *corev1.ResourceFieldSelector) (string, error) {
	if r.ContainerName != "" && r.ContainerName != c.Name {
		c = nil
		for _, list := range [][]corev1.Container{e.pod.Spec.InitContainers, e.pod.Spec.Containers} {
			for i := range list {
				if list[i].Name == r.ContainerName {
					c = &list[i]
				}
			}
		}
		if c == nil {
			return "", missing{fmt.Sprintf("container %s not found", r.ContainerName)}
		}
	}
	list, name, _ := strings.Cut(r.Resource, ".")
	from := c.Resources.Requests
	if list == "limits" {
		from = c.Resources.Limits
	}
	quantity, set := from[corev1.ResourceName(name)]
	if !set && list == "limits" && e.node != nil {
		quantity = e.node.Status.Allocatable[corev1.ResourceName(name)]
	}
	divisor := r.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	value, by := quantity.Value(), divisor.Value()
	if name == string(corev1.ResourceCPU) {
		value, by = quantity.MilliValue(), divisor.MilliValue()
	}
	return strconv.FormatInt(int64(math.Ceil(float64(value)/float64(by))), 10), nil
}
