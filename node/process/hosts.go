package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/node/internal/beneath"
	"github.com/kapok-dev/kapok/node/internal/podstatus"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

const (
	systemHosts = "/etc/hosts"
	// clusterDomain is the last part of the full names of Services.
	clusterDomain = "cluster.local"
)

// hasNames reports whether containers have an /etc/hosts of their own, and logs why not.
func (p *pods) hasNames(log logr.Logger) bool {
	if p.options.NoNames {
		return false
	}
	err := p.runtime.Mounts(p.ctx)
	if err != nil && p.ctx.Err() == nil {
		log.Error(err, "Names of Services do not resolve in containers, and hostAliases have no effect")
	}
	return err == nil
}

func (p *pods) hostsFile(pod string) string { return filepath.Join(p.podDir(pod), "hosts") }

// hosts writes the file that containers of a pod see as /etc/hosts, and returns its path; "" if
// they see that of the system.
func (p *pods) hosts(env *environment) (string, error) {
	if !p.named() {
		return "", nil
	}
	known, err := p.names(env.ctx)
	if err != nil {
		return "", err
	}
	file, root := p.hostsFile(string(env.pod.UID)), p.runtime.Root()
	dir, err := beneath.MakeDir(root, filepath.Dir(file))
	if err != nil {
		return "", err
	}
	defer dir.Close()
	if err := beneath.Create(root, file, nil, 0o644); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return p.path(file), overwrite(root, file, hostsOf(env.pod, env.podIP, known))
}

// rename updates the files of all pods that have one.
func (p *pods) rename(ctx context.Context) error {
	all, err := p.list(ctx)
	if err != nil || len(all) == 0 || !p.named() {
		return err
	}
	known, err := p.names(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for i := range all {
		pod := &all[i]
		if podstatus.Ended(pod.Status.Phase) {
			continue
		}
		err := overwrite(p.runtime.Root(), p.hostsFile(string(pod.UID)), hostsOf(pod, pod.Status.PodIP, known))
		if !errors.Is(err, fs.ErrNotExist) { // no container has started
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// overwrite changes the contents of a file that is mounted, which another file cannot replace. A
// reader sees the old or the new lines: what is left of a longer file is made empty before it is
// cut off.
func overwrite(in *os.Root, name string, data []byte) error {
	f, err := beneath.Open(in, name, os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	old, err := io.ReadAll(f)
	if err != nil || bytes.Equal(old, data) {
		return err
	}
	padded := append(bytes.Clone(data), bytes.Repeat([]byte("\n"), max(0, len(old)-len(data)))...)
	if _, err := f.WriteAt(padded, 0); err != nil {
		return err
	}
	return f.Truncate(int64(len(data)))
}

// names are what /etc/hosts is made from.
type names struct {
	system   []byte // the file of the system
	services []corev1.Service
	slices   map[client.ObjectKey][]discoveryv1.EndpointSlice // of headless Services
}

// names reads what is known of Services.
func (p *pods) names(ctx context.Context) (n names, err error) {
	if n.system, err = os.ReadFile(systemHosts); err != nil {
		return n, err
	}
	var all corev1.ServiceList
	if err := p.client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return n, err
	}
	n.services, n.slices = all.Items, map[client.ObjectKey][]discoveryv1.EndpointSlice{}
	for i := range n.services {
		s := &n.services[i]
		if s.Spec.ClusterIP != corev1.ClusterIPNone {
			continue
		}
		var slices discoveryv1.EndpointSliceList
		err := p.client.List(ctx, &slices, client.InNamespace(s.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: s.Name}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return n, err
		}
		n.slices[client.ObjectKeyFromObject(s)] = slices.Items
	}
	return n, nil
}

// hostsOf returns the file for a pod: that of the system, the pod, its hostAliases, and the
// Services.
func hostsOf(pod *corev1.Pod, podIP string, n names) []byte {
	var b bytes.Buffer
	b.Write(n.system)
	if len(n.system) > 0 && !bytes.HasSuffix(n.system, []byte("\n")) {
		b.WriteByte('\n')
	}
	if !pod.Spec.HostNetwork && podIP != "" {
		name := hostname(pod)
		if pod.Spec.Subdomain != "" {
			name = strings.Join([]string{name, pod.Spec.Subdomain, pod.Namespace, "svc", clusterDomain}, ".") + " " + name
		}
		fmt.Fprintf(&b, "%s %s\n", podIP, name)
	}
	for _, alias := range pod.Spec.HostAliases {
		fmt.Fprintf(&b, "%s %s\n", alias.IP, strings.Join(alias.Hostnames, " "))
	}
	if !usesClusterNames(pod) {
		return b.Bytes()
	}
	for i := range n.services {
		s := &n.services[i]
		switch {
		case s.Spec.Type == corev1.ServiceTypeExternalName, s.Spec.ClusterIP == "":
		case s.Spec.ClusterIP != corev1.ClusterIPNone:
			fmt.Fprintf(&b, "%s %s\n", s.Spec.ClusterIP, namesOf(s, "", pod.Namespace))
		default:
			headless(&b, s, n.slices[client.ObjectKeyFromObject(s)], pod.Namespace)
		}
	}
	return b.Bytes()
}

// headless writes the endpoints of a headless Service, which have its name, and their own if they
// have a hostname.
func headless(b *bytes.Buffer, s *corev1.Service, slices []discoveryv1.EndpointSlice, namespace string) {
	for i := range slices {
		if slices[i].AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		for j := range slices[i].Endpoints {
			e := &slices[i].Endpoints[j]
			if e.Conditions.Ready != nil && !*e.Conditions.Ready || len(e.Addresses) == 0 {
				continue
			}
			all := namesOf(s, "", namespace)
			if e.Hostname != nil && *e.Hostname != "" {
				all = namesOf(s, *e.Hostname+".", namespace) + " " + all
			}
			fmt.Fprintf(b, "%s %s\n", e.Addresses[0], all)
		}
	}
}

// namesOf returns the names of a Service for pods of a namespace, each after a prefix.
func namesOf(s *corev1.Service, prefix, namespace string) string {
	name := prefix + s.Name + "." + s.Namespace
	all := name + ".svc." + clusterDomain + " " + name + ".svc " + name
	if s.Namespace == namespace {
		all += " " + prefix + s.Name
	}
	return all
}

// usesClusterNames reports whether a pod resolves names of the cluster.
func usesClusterNames(pod *corev1.Pod) bool {
	switch pod.Spec.DNSPolicy {
	case corev1.DNSClusterFirst, "":
		return !pod.Spec.HostNetwork
	case corev1.DNSClusterFirstWithHostNet:
		return true
	}
	return false // Default, None
}
