package pods

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (w *podWarner) eachContainer(visit func(c *corev1.Container, at *field.Path)) {
	for i := range w.spec.InitContainers {
		visit(&w.spec.InitContainers[i], w.at("spec", "initContainers").Index(i))
	}
	for i := range w.spec.Containers {
		visit(&w.spec.Containers[i], w.at("spec", "containers").Index(i))
	}
	for i := range w.spec.EphemeralContainers {
		visit((*corev1.Container)(&w.spec.EphemeralContainers[i].EphemeralContainerCommon), w.at("spec", "ephemeralContainers").Index(i))
	}
}

func (w *podWarner) containers() {
	const useSeccomp = `non-functional in v1.27+; use the "seccompProfile" field instead`
	if sc := w.spec.SecurityContext; sc == nil || sc.SeccompProfile == nil {
		w.annotation(corev1.SeccompPodAnnotationKey, useSeccomp)
	}
	w.eachContainer(func(c *corev1.Container, at *field.Path) {
		if sc := c.SecurityContext; sc == nil || sc.SeccompProfile == nil {
			w.annotation(corev1.SeccompContainerAnnotationKeyPrefix+c.Name, useSeccomp)
		}
		memory, storage := corev1.ResourceMemory, corev1.ResourceEphemeralStorage
		for _, name := range []corev1.ResourceName{memory, storage} {
			for _, of := range []struct {
				name string
				list corev1.ResourceList
			}{{"limits", c.Resources.Limits}, {"requests", c.Resources.Requests}} {
				if value, ok := of.list[name]; ok {
					w.fractions(corev1.ResourceList{name: value}, at.Child("resources", of.name))
				}
			}
		}
		w.variables(c, at)
	})
}

// variables warns of variables that override others, unless they refer to them.
func (w *podWarner) variables(c *corev1.Container, at *field.Path) {
	seen := map[string]bool{}
	for i, v := range c.Env {
		ref := "$(" + v.Name + ")"
		if seen[v.Name] && (v.ValueFrom != nil || v.Value == ref || !strings.Contains(v.Value, ref)) {
			w.warn(at.Child("env").Index(i), "hides previous definition of %q, which may be dropped when using apply", v.Name)
		}
		seen[v.Name] = true
	}
}

// ports warns of ports that several containers expose, and of names that several ports have.
func (w *podWarner) ports() {
	type known struct {
		at   *field.Path
		port corev1.ContainerPort
	}
	seen := map[string][]known{}
	w.eachContainer(func(c *corev1.Container, path *field.Path) {
		for i, port := range c.Ports {
			at := path.Child("ports").Index(i)
			if port.HostIP != "" && port.HostPort == 0 {
				w.warn(at, "hostIP set without hostPort: %+v", port)
			}
			key := fmt.Sprintf("%d/%s", port.ContainerPort, port.Protocol)
			for _, other := range seen[key] {
				switch {
				case port.HostIP == other.port.HostIP && port.HostPort == other.port.HostPort:
					w.warn(at, "duplicate port definition with %s", other.at)
				case port.HostPort == 0 || other.port.HostPort == 0:
					w.warn(at, "overlapping port definition with %s", other.at)
				case port.HostPort == other.port.HostPort && (port.HostIP == "") != (other.port.HostIP == ""):
					w.warn(at, "dangerously ambiguous port definition with %s", other.at)
				}
			}
			seen[key] = append(seen[key], known{at, port})
		}
	})
	names := map[string]*field.Path{}
	w.eachContainer(func(c *corev1.Container, path *field.Path) {
		for i, port := range c.Ports {
			at := path.Child("ports").Index(i)
			if other := names[port.Name]; other != nil {
				w.warn(at, "duplicate port name %q with %s, services and probes that select ports by name will use %s", port.Name, other, other)
			} else if port.Name != "" {
				names[port.Name] = at
			}
		}
	})
}
