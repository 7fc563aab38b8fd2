package pods

import (
	"fmt"
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// volumeSet has the valid volumes of a pod by name.
type volumeSet map[string]corev1.VolumeSource

func validateContainers(spec *corev1.PodSpec, volumes volumeSet, at *field.Path) field.ErrorList {
	if len(spec.Containers) == 0 {
		return field.ErrorList{field.Required(at, "")}
	}
	var all field.ErrorList
	names := map[string]bool{}
	for i := range spec.Containers {
		c := &spec.Containers[i]
		all = append(all, validateContainer(c, spec, volumes, at.Index(i))...)
		if names[c.Name] {
			all = append(all, field.Duplicate(at.Index(i).Child("name"), c.Name))
		}
		names[c.Name] = true
		all = append(all, validateRunning(c, spec, at.Index(i))...)
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
		all = append(all, validateContainer(c, spec, volumes, at.Index(i))...)
		all = append(all, validateRestart(c, at.Index(i))...)
		if names[c.Name] {
			all = append(all, field.Duplicate(at.Index(i).Child("name"), c.Name))
		}
		names[c.Name] = c.Name != ""
		all = append(all, validateHostPorts(spec.InitContainers[i:i+1], at)...)
		if isSidecar(c) {
			all = append(all, validateRunning(c, spec, at.Index(i))...)
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
		for j, policy := range c.ResizePolicy {
			if policy.RestartPolicy == corev1.RestartContainer {
				all = append(all, field.Invalid(at.Index(i).Child("resizePolicy").Index(j).Child("restartPolicy"), policy.RestartPolicy,
					"must not be set to 'RestartContainer' for non-sidecar initContainers"))
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
		c, at := &spec.EphemeralContainers[i], at.Index(i)
		common := (*corev1.Container)(&c.EphemeralContainerCommon)
		all = append(all, validateContainer(common, spec, volumes, at)...)
		all = append(all, validateTrimmedImage(common, at)...)
		if names[c.Name] {
			all = append(all, field.Duplicate(at.Child("name"), c.Name))
		}
		names[c.Name] = true
		if c.TargetContainerName != "" && !targets[c.TargetContainerName] {
			all = append(all, field.NotFound(at.Child("targetContainerName"), c.TargetContainerName))
		}
		all = append(all, validateEphemeral(common, at)...)
	}
	return all
}

// validateEphemeral rejects fields that ephemeral containers cannot have, such as probes and ports.
func validateEphemeral(c *corev1.Container, at *field.Path) field.ErrorList {
	var all field.ErrorList
	const why = "cannot be set for an Ephemeral Container"
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"ports", c.Ports != nil},
		{"resources", c.Resources.Limits != nil || c.Resources.Requests != nil || c.Resources.Claims != nil},
		{"resizePolicy", c.ResizePolicy != nil},
		{"restartPolicy", c.RestartPolicy != nil},
		{"restartPolicyRules", c.RestartPolicyRules != nil},
		{"livenessProbe", c.LivenessProbe != nil},
		{"readinessProbe", c.ReadinessProbe != nil},
		{"startupProbe", c.StartupProbe != nil},
		{"lifecycle", c.Lifecycle != nil},
	} {
		if f.set {
			all = append(all, field.Forbidden(at.Child(f.name), why))
		}
	}
	for i, mount := range c.VolumeMounts {
		at := at.Child("volumeMounts").Index(i)
		if mount.SubPath != "" {
			all = append(all, field.Forbidden(at.Child("subPath"), why))
		}
		if mount.SubPathExpr != "" {
			all = append(all, field.Forbidden(at.Child("subPathExpr"), why))
		}
	}
	return all
}

// validateContainer returns the errors that all types of containers have in common.
func validateContainer(c *corev1.Container, spec *corev1.PodSpec, volumes volumeSet, at *field.Path) field.ErrorList {
	var all field.ErrorList
	if c.Name == "" {
		all = append(all, field.Required(at.Child("name"), ""))
	} else {
		all = append(all, rule.ValidateLabel(at.Child("name"), c.Name)...)
	}
	if c.Image == "" {
		all = append(all, field.Required(at.Child("image"), ""))
	}
	all = append(all, rule.OneOf(at.Child("terminationMessagePolicy"), c.TerminationMessagePolicy,
		corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)...)
	all = append(all, validatePorts(c.Ports, at.Child("ports"))...)
	all = append(all, validateEnv(c.Env, at.Child("env"))...)
	all = append(all, validateEnvFrom(c.EnvFrom, at.Child("envFrom"))...)
	all = append(all, validateMounts(c, volumes, at.Child("volumeMounts"))...)
	all = append(all, validateDevices(c, volumes, at.Child("volumeDevices"))...)
	all = append(all, rule.OneOf(at.Child("imagePullPolicy"), c.ImagePullPolicy, corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)...)
	all = append(all, validateResources(&c.Resources, claimNames(spec), at.Child("resources"))...)
	all = append(all, validateResizePolicy(c.ResizePolicy, spec.RestartPolicy, at.Child("resizePolicy"))...)
	return append(all, validateSecurityContext(c.SecurityContext, spec.HostUsers == nil || *spec.HostUsers, at.Child("securityContext"))...)
}

// validateTrimmedImage rejects images with leading or trailing blanks in pods. Templates may have
// them, as another component may replace the image.
func validateTrimmedImage(c *corev1.Container, at *field.Path) field.ErrorList {
	if strings.TrimSpace(c.Image) == c.Image {
		return nil
	}
	return field.ErrorList{field.Invalid(at.Child("image"), c.Image, "must not have leading or trailing whitespace")}
}

// validateResizePolicy returns the errors of a container's resize policies. The paths without an
// index are Kubernetes'.
func validateResizePolicy(policies []corev1.ContainerResizePolicy, restart corev1.RestartPolicy, at *field.Path) field.ErrorList {
	var all field.ErrorList
	seen := map[corev1.ResourceName]bool{}
	for i, p := range policies {
		if seen[p.ResourceName] {
			all = append(all, field.Duplicate(at.Index(i), p.ResourceName))
		}
		seen[p.ResourceName] = true
		all = append(all, rule.OneOf(at, p.ResourceName, corev1.ResourceCPU, corev1.ResourceMemory)...)
		all = append(all, rule.OneOf(at, p.RestartPolicy, corev1.NotRequired, corev1.RestartContainer)...)
		if restart == corev1.RestartPolicyNever && p.RestartPolicy != corev1.NotRequired {
			all = append(all, field.Invalid(at, p.RestartPolicy, "must be 'NotRequired' when pod `restartPolicy` is 'Never'"))
		}
	}
	return all
}

// validateRestart returns the errors of a container's own restart policy and rules.
func validateRestart(c *corev1.Container, at *field.Path) field.ErrorList {
	var all field.ErrorList
	switch {
	case c.RestartPolicy == nil && len(c.RestartPolicyRules) > 0:
		all = append(all, field.Required(at.Child("restartPolicy"), "must specify restartPolicy when restart rules are used"))
	case c.RestartPolicy != nil:
		all = append(all, rule.Supported(at.Child("restartPolicy"), *c.RestartPolicy,
			corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)...)
	}
	at = at.Child("restartPolicyRules")
	if n := len(c.RestartPolicyRules); n > maxRestartRules {
		all = append(all, field.TooMany(at, n, maxRestartRules))
	}
	for i, entry := range c.RestartPolicyRules {
		at := at.Index(i)
		all = append(all, rule.Supported(at.Child("action"), entry.Action,
			corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers)...)
		codes := entry.ExitCodes
		if codes == nil {
			all = append(all, field.Required(at.Child("exitCodes"), "must be specified"))
			continue
		}
		at = at.Child("exitCodes")
		all = append(all, rule.Supported(at.Child("operator"), codes.Operator, corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn)...)
		if n := len(codes.Values); n > maxExitCodes {
			all = append(all, field.TooMany(at.Child("values"), n, maxExitCodes))
		}
	}
	return all
}

// Limits of a container's restart rules.
const (
	maxRestartRules = 20
	maxExitCodes    = 255
)

func validatePorts(ports []corev1.ContainerPort, at *field.Path) field.ErrorList {
	var all field.ErrorList
	names := map[string]bool{}
	for i, port := range ports {
		at := at.Index(i)
		if port.Name != "" {
			problems := validation.IsValidPortName(port.Name)
			all = append(all, rule.Invalid(at.Child("name"), port.Name, problems)...)
			if len(problems) == 0 && names[port.Name] {
				all = append(all, field.Duplicate(at.Child("name"), port.Name))
			}
			names[port.Name] = true
		}
		if port.ContainerPort == 0 {
			all = append(all, field.Required(at.Child("containerPort"), ""))
		} else {
			all = append(all, rule.Invalid(at.Child("containerPort"), port.ContainerPort, validation.IsValidPortNum(int(port.ContainerPort)))...)
		}
		if port.HostPort != 0 {
			all = append(all, rule.Invalid(at.Child("hostPort"), port.HostPort, validation.IsValidPortNum(int(port.HostPort)))...)
		}
		all = append(all, rule.OneOf(at.Child("protocol"), port.Protocol, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)...)
	}
	return all
}

// validateHostPorts rejects host ports that several containers use.
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
