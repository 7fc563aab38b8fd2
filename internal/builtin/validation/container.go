package validation

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// volumeSet is the valid volumes of a pod, by name.
type volumeSet map[string]corev1.VolumeSource

func validateContainers(spec *corev1.PodSpec, volumes volumeSet, at *field.Path) field.ErrorList {
	if len(spec.Containers) == 0 {
		return field.ErrorList{field.Required(at, "")}
	}
	var all field.ErrorList
	names := map[string]bool{}
	for i := range spec.Containers {
		c := &spec.Containers[i]
		all = append(all, validateContainer(c, volumes, at.Index(i))...)
		if names[c.Name] {
			all = append(all, field.Duplicate(at.Index(i).Child("name"), c.Name))
		}
		names[c.Name] = true
		all = append(all, validateRunning(c, at.Index(i))...)
		all = append(all, validateRestart(c, at.Index(i))...)
	}
	return append(all, validateHostPorts(spec.Containers, at)...)
}

func validateInitContainers(spec *corev1.PodSpec, volumes volumeSet, at *field.Path) field.ErrorList {
	var all field.ErrorList
	names := map[string]bool{}
	for _, c := range spec.Containers {
		names[c.Name] = true
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		all = append(all, validateContainer(c, volumes, at.Index(i))...)
		all = append(all, validateRestart(c, at.Index(i))...)
		if names[c.Name] {
			all = append(all, field.Duplicate(at.Index(i).Child("name"), c.Name))
		}
		names[c.Name] = c.Name != ""
		all = append(all, validateHostPorts(spec.InitContainers[i:i+1], at)...)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			all = append(all, validateRunning(c, at.Index(i))...)
			continue
		}
		for _, f := range []struct {
			name string
			set  bool
		}{
			{"lifecycle", c.Lifecycle != nil}, {"livenessProbe", c.LivenessProbe != nil},
			{"readinessProbe", c.ReadinessProbe != nil}, {"startupProbe", c.StartupProbe != nil},
		} {
			if f.set {
				all = append(all, field.Forbidden(at.Index(i).Child(f.name), "may not be set for init containers without restartPolicy=Always"))
			}
		}
	}
	return all
}

func validateEphemeralContainers(spec *corev1.PodSpec, volumes volumeSet, at *field.Path) field.ErrorList {
	var all field.ErrorList
	names, targets := map[string]bool{}, map[string]bool{}
	for _, containers := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for _, c := range containers {
			names[c.Name], targets[c.Name] = true, true
		}
	}
	for i := range spec.EphemeralContainers {
		c := &spec.EphemeralContainers[i]
		all = append(all, validateContainer((*corev1.Container)(&c.EphemeralContainerCommon), volumes, at.Index(i))...)
		if names[c.Name] {
			all = append(all, field.Duplicate(at.Index(i).Child("name"), c.Name))
		}
		names[c.Name] = true
		if c.TargetContainerName != "" && !targets[c.TargetContainerName] {
			all = append(all, field.NotFound(at.Index(i).Child("targetContainerName"), c.TargetContainerName))
		}
	}
	return all
}

// validateContainer judges what containers of all sorts have in common.
func validateContainer(c *corev1.Container, volumes volumeSet, at *field.Path) field.ErrorList {
	var all field.ErrorList
	if c.Name == "" {
		all = append(all, field.Required(at.Child("name"), ""))
	} else {
		all = append(all, validateLabelled(at.Child("name"), c.Name)...)
	}
	if c.Image == "" {
		all = append(all, field.Required(at.Child("image"), ""))
	}
	all = append(all, oneOf(at.Child("terminationMessagePolicy"), c.TerminationMessagePolicy,
		corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)...)
	all = append(all, validatePorts(c.Ports, at.Child("ports"))...)
	all = append(all, validateEnv(c.Env, at.Child("env"))...)
	all = append(all, validateEnvFrom(c.EnvFrom, at.Child("envFrom"))...)
	all = append(all, validateMounts(c.VolumeMounts, volumes, at.Child("volumeMounts"))...)
	all = append(all, oneOf(at.Child("imagePullPolicy"), c.ImagePullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)...)
	return append(all, validateResources(&c.Resources, at.Child("resources"))...)
}

// validateRestart judges a restart policy that differs from that of the pod.
func validateRestart(c *corev1.Container, at *field.Path) field.ErrorList {
	var all field.ErrorList
	policies := []corev1.ContainerRestartPolicy{
		corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure,
	}
	switch {
	case c.RestartPolicy == nil && len(c.RestartPolicyRules) > 0:
		all = append(all, field.Required(at.Child("restartPolicy"), "must specify restartPolicy when restart rules are used"))
	case c.RestartPolicy != nil && !slices.Contains(policies, *c.RestartPolicy):
		all = append(all, field.NotSupported(at.Child("restartPolicy"), *c.RestartPolicy, policies))
	}
	return all
}

func validatePorts(ports []corev1.ContainerPort, at *field.Path) field.ErrorList {
	var all field.ErrorList
	names := map[string]bool{}
	for i, port := range ports {
		at := at.Index(i)
		if port.Name != "" {
			problems := validation.IsValidPortName(port.Name)
			all = append(all, invalid(at.Child("name"), port.Name, problems)...)
			if len(problems) == 0 && names[port.Name] {
				all = append(all, field.Duplicate(at.Child("name"), port.Name))
			}
			names[port.Name] = true
		}
		if port.ContainerPort == 0 {
			all = append(all, field.Required(at.Child("containerPort"), ""))
		} else {
			all = append(all, invalid(at.Child("containerPort"), port.ContainerPort, validation.IsValidPortNum(int(port.ContainerPort)))...)
		}
		if port.HostPort != 0 {
			all = append(all, invalid(at.Child("hostPort"), port.HostPort, validation.IsValidPortNum(int(port.HostPort)))...)
		}
		all = append(all, oneOf(at.Child("protocol"), port.Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)...)
	}
	return all
}

// validateHostPorts: two containers do not listen at the same port of the host.
func validateHostPorts(containers []corev1.Container, at *field.Path) field.ErrorList {
	var all field.ErrorList
	taken := map[string]bool{}
	for i := range containers {
		for j, port := range containers[i].Ports {
			if port.HostPort == 0 {
				continue
			}
			endpoint := fmt.Sprintf("%s/%s/%d", port.Protocol, port.HostIP, port.HostPort)
			if taken[endpoint] {
				all = append(all, field.Duplicate(at.Index(i).Child("ports").Index(j).Child("hostPort"), endpoint))
			}
			taken[endpoint] = true
		}
	}
	return all
}

func validateMounts(mounts []corev1.VolumeMount, volumes volumeSet, at *field.Path) field.ErrorList {
	var all field.ErrorList
	paths := map[string]bool{}
	for i, mount := range mounts {
		item := at.Index(i)
		if mount.Name == "" {
			all = append(all, field.Required(item.Child("name"), ""))
		}
		if _, ok := volumes[mount.Name]; !ok {
			all = append(all, field.NotFound(item.Child("name"), mount.Name))
		}
		if mount.MountPath == "" {
			all = append(all, field.Required(item.Child("mountPath"), ""))
		}
		if paths[mount.MountPath] {
			all = append(all, field.Invalid(item.Child("mountPath"), mount.MountPath, "must be unique"))
		}
		paths[mount.MountPath] = true
		if mount.SubPath != "" { // the path without an index is Kubernetes'
			all = append(all, validateRelative(mount.SubPath, at.Child("subPath"))...)
		}
		if mount.SubPathExpr != "" {
			if mount.SubPath != "" {
				all = append(all, field.Invalid(item.Child("subPathExpr"), mount.SubPathExpr, "subPathExpr and subPath are mutually exclusive"))
			}
			all = append(all, validateRelative(mount.SubPathExpr, at.Child("subPathExpr"))...)
		}
	}
	return all
}

// validateRelative accepts paths that lead downwards.
func validateRelative(target string, at *field.Path) field.ErrorList {
	var all field.ErrorList
	if path.IsAbs(target) {
		all = append(all, field.Invalid(at, target, "must be a relative path"))
	}
	return append(all, validateNoBacksteps(target, at)...)
}

func validateNoBacksteps(target string, at *field.Path) field.ErrorList {
	if slices.Contains(strings.Split(target, "/"), "..") {
		return field.ErrorList{field.Invalid(at, target, "must not contain '..'")}
	}
	return nil
}

func validateResources(r *corev1.ResourceRequirements, at *field.Path) field.ErrorList {
	var all field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(r.Limits)) {
		all = append(all, validateResource(name, r.Limits, at.Child("limits").Key(string(name)))...)
	}
	requests := at.Child("requests")
	for _, name := range slices.Sorted(maps.Keys(r.Requests)) {
		all = append(all, validateResource(name, r.Requests, requests.Key(string(name)))...)
		request := r.Requests[name]
		limit, limited := r.Limits[name]
		switch overcommit := mayOvercommit(name); {
		case !limited && !overcommit:
			all = append(all, field.Required(at.Child("limits"), "Limit must be set for non overcommitable resources"))
		case limited && !overcommit && request.Cmp(limit) != 0:
			all = append(all, field.Invalid(requests, request.String(), fmt.Sprintf("must be equal to %s limit of %s", name, limit.String())))
		case limited && request.Cmp(limit) > 0:
			all = append(all, field.Invalid(requests, request.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String())))
		}
	}
	return all
}

// validateResource judges the name and the amount of a resource of a container.
func validateResource(name corev1.ResourceName, list corev1.ResourceList, at *field.Path) field.ErrorList {
	all := invalid(at, name, validation.IsQualifiedName(string(name)))
	if len(all) == 0 && !qualified(string(name)) && !isContainerResource(name) {
		all = append(all, field.Invalid(at, name, "must be a standard resource type or fully qualified"),
			field.Invalid(at, name, "must be a standard resource for containers"))
	}
	quantity := list[name]
	if quantity.Sign() < 0 {
		all = append(all, field.Invalid(at, quantity.String(), apivalidation.IsNegativeErrorMsg))
	}
	if !mayOvercommit(name) && quantity.MilliValue()%1000 != 0 && !strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
		all = append(all, field.Invalid(at, quantity, "must be an integer"))
	}
	return all
}

func isContainerResource(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return true
	}
	return strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}

// mayOvercommit says whether more may be promised than there is: not of what
// devices provide, nor of huge pages.
func mayOvercommit(name corev1.ResourceName) bool {
	native := !qualified(string(name)) || strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
	return native && !strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}
