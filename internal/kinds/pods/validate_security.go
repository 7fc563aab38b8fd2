package pods

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/rule"
	"github.com/kapok-dev/kapok/internal/kinds/storage"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validatePodSecurityContext returns the errors of a pod's security context.
func validatePodSecurityContext(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var all field.ErrorList
	sc := spec.SecurityContext
	if sc == nil {
		return nil
	}
	if id := sc.FSGroup; id != nil {
		all = append(all, rule.Invalid(path.Child("fsGroup"), *id, validation.IsValidGroupID(*id))...)
	}
	all = append(all, validateRunAs(sc.RunAsUser, sc.RunAsGroup, path)...)
	for i, id := range sc.SupplementalGroups {
		all = append(all, rule.Invalid(path.Child("supplementalGroups").Index(i), id, validation.IsValidGroupID(id))...)
	}
	all = append(all, validateSysctls(spec, path.Child("sysctls"))...)
	if policy := sc.FSGroupChangePolicy; policy != nil {
		all = append(all, rule.Supported(path.Child("fsGroupChangePolicy"), *policy, corev1.FSGroupChangeAlways, corev1.FSGroupChangeOnRootMismatch)...)
	}
	all = append(all, validateSeccomp(sc.SeccompProfile, path.Child("seccompProfile"))...)
	all = append(all, validateWindowsOptions(sc.WindowsOptions, path.Child("windowsOptions"))...)
	all = append(all, validateAppArmor(sc.AppArmorProfile, path.Child("appArmorProfile"))...)
	if policy := sc.SupplementalGroupsPolicy; policy != nil {
		all = append(all, rule.Supported(path.Child("supplementalGroupsPolicy"), *policy, corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict)...)
	}
	if policy := sc.SELinuxChangePolicy; policy != nil {
		all = append(all, rule.Supported(path.Child("seLinuxChangePolicy"), *policy, corev1.SELinuxChangePolicyMountOption, corev1.SELinuxChangePolicyRecursive)...)
	}
	return all
}

// validateSecurityContext returns the errors of a container's security context.
func validateSecurityContext(sc *corev1.SecurityContext, hostUsers bool, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if sc == nil {
		return nil
	}
	all = append(all, validateRunAs(sc.RunAsUser, sc.RunAsGroup, path)...)
	if mount := sc.ProcMount; mount != nil {
		at := path.Child("procMount")
		all = append(all, rule.Supported(at, *mount, corev1.DefaultProcMount, corev1.UnmaskedProcMount)...)
		if hostUsers && *mount == corev1.UnmaskedProcMount {
			all = append(all, field.Invalid(at, *mount, "`hostUsers` must be false to use `Unmasked`"))
		}
	}
	all = append(all, validateSeccomp(sc.SeccompProfile, path.Child("seccompProfile"))...)
	if escalate := sc.AllowPrivilegeEscalation; escalate != nil && !*escalate {
		if rule.IsTrue(sc.Privileged) {
			all = append(all, field.Invalid(path, rule.AsInternal(sc), "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"))
		}
		if sc.Capabilities != nil && slices.Contains(sc.Capabilities.Add, "CAP_SYS_ADMIN") {
			all = append(all, field.Invalid(path, rule.AsInternal(sc), "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"))
		}
	}
	all = append(all, validateWindowsOptions(sc.WindowsOptions, path.Child("windowsOptions"))...)
	return append(all, validateAppArmor(sc.AppArmorProfile, path.Child("appArmorProfile"))...)
}

func validateRunAs(user, group *int64, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if user != nil {
		all = append(all, rule.Invalid(path.Child("runAsUser"), *user, validation.IsValidUserID(*user))...)
	}
	if group != nil {
		all = append(all, rule.Invalid(path.Child("runAsGroup"), *group, validation.IsValidGroupID(*group))...)
	}
	return all
}

const maxSysctlName = 253

var sysctlName = rule.Pattern(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`)

func validateSysctls(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var all field.ErrorList
	seen := map[string]bool{}
	for i, s := range spec.SecurityContext.Sysctls {
		at := path.Index(i).Child("name")
		switch {
		case s.Name == "":
			all = append(all, field.Required(at, ""))
		case len(s.Name) > maxSysctlName || !sysctlName().MatchString(s.Name):
			all = append(all, field.Invalid(at, s.Name, fmt.Sprintf("must have at most %d characters and match regex %s", maxSysctlName, sysctlName())))
		case seen[s.Name]:
			all = append(all, field.Duplicate(at, s.Name))
		}
		switch of := sysctlNamespace(s.Name); {
		case spec.HostNetwork && of == "net":
			all = append(all, field.Invalid(at, s.Name, "may not be specified when 'hostNetwork' is true"))
		case spec.HostIPC && of == "ipc":
			all = append(all, field.Invalid(at, s.Name, "may not be specified when 'hostIPC' is true"))
		}
		seen[s.Name] = true
	}
	return all
}

// sysctlNamespace returns the kernel namespace of a parameter. Slashes and dots are equivalent; the
// first one in the name is the separator.
func sysctlNamespace(name string) string {
	if i := strings.IndexAny(name, "./"); i >= 0 && name[i] == '/' {
		name = strings.NewReplacer("/", ".", ".", "/").Replace(name)
	}
	switch {
	case name == "kernel.sem", strings.HasPrefix(name, "kernel.shm"), strings.HasPrefix(name, "kernel.msg"), strings.HasPrefix(name, "fs.mqueue."):
		return "ipc"
	case strings.HasPrefix(name, "net."):
		return "net"
	}
	return ""
}

func validateSeccomp(profile *corev1.SeccompProfile, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if profile == nil {
		return nil
	}
	if profile.Type == "" {
		all = append(all, field.Required(path.Child("type"), "type is required when seccompProfile is set"))
	} else {
		all = append(all, rule.Supported(path.Child("type"), profile.Type,
			corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined)...)
	}
	at, local := path.Child("localhostProfile"), profile.Type == corev1.SeccompProfileTypeLocalhost
	switch {
	case local && profile.LocalhostProfile == nil:
		all = append(all, field.Required(at, "must be set when seccomp type is Localhost"))
	case local:
		all = append(all, storage.ValidateRelative(*profile.LocalhostProfile, at)...)
	case profile.LocalhostProfile != nil:
		all = append(all, field.Invalid(at, rule.AsInternal(profile), "can only be set when seccomp type is Localhost"))
	}
	return all
}

const maxAppArmorProfile = 4095

func validateAppArmor(profile *corev1.AppArmorProfile, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if profile == nil {
		return nil
	}
	at, name := path.Child("localhostProfile"), profile.LocalhostProfile
	switch profile.Type {
	case corev1.AppArmorProfileTypeLocalhost:
		switch {
		case name == nil:
			return field.ErrorList{field.Required(at, "must be set when AppArmor type is Localhost")}
		case strings.TrimSpace(*name) != *name:
			all = append(all, field.Invalid(at, *name, "must not be padded with whitespace"))
		case *name == "":
			all = append(all, field.Required(at, "must be set when AppArmor type is Localhost"))
		}
		if len(*name) > maxAppArmorProfile {
			all = append(all, field.TooLong(at, "", maxAppArmorProfile))
		}
	case corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined:
		if name != nil {
			all = append(all, field.Invalid(at, *name, "can only be set when AppArmor type is Localhost"))
		}
	case "":
		all = append(all, field.Required(path.Child("type"), "type is required when appArmorProfile is set"))
	default:
		all = append(all, rule.Supported(path.Child("type"), profile.Type,
			corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined)...)
	}
	return all
}
