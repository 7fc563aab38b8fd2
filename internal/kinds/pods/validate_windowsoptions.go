package pods

import (
	"fmt"
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func isWindows(spec *corev1.PodSpec) bool { return spec.OS != nil && spec.OS.Name == corev1.Windows }

// validateOS rejects fields that the operating system of the pod, if set, does not support.
func validateOS(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	if spec.OS == nil {
		return nil
	}
	switch at := path.Child("os"); spec.OS.Name {
	case "":
		return field.ErrorList{field.Required(at.Child("name"), "")}
	case corev1.Linux:
		return validateLinux(spec, path)
	case corev1.Windows:
		return validateWindows(spec, path)
	default:
		return rule.Supported(at, spec.OS.Name, corev1.Linux, corev1.Windows)
	}
}

func validateLinux(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var all field.ErrorList
	const why = "windows options cannot be set for a linux pod"
	if sc := spec.SecurityContext; sc != nil && sc.WindowsOptions != nil {
		all = append(all, field.Forbidden(path.Child("securityContext", "windowsOptions"), why))
	}
	eachContainer(spec, path, func(c *corev1.Container, at *field.Path) {
		if sc := c.SecurityContext; sc != nil && sc.WindowsOptions != nil {
			all = append(all, field.Forbidden(at.Child("securityContext", "windowsOptions"), why))
		}
	})
	return all
}

// linuxOnly is a field that Windows pods must not have.
type linuxOnly struct {
	name string
	set  bool
}

func forbidOnWindows(path *field.Path, fields ...linuxOnly) field.ErrorList {
	var all field.ErrorList
	for _, f := range fields {
		if f.set {
			all = append(all, field.Forbidden(path.Child(f.name), "cannot be set for a windows pod"))
		}
	}
	return all
}

func validateWindows(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if sc := spec.SecurityContext; sc != nil {
		all = append(all, forbidOnWindows(path.Child("securityContext"), []linuxOnly{
			{"appArmorProfile", sc.AppArmorProfile != nil},
			{"seLinuxOptions", sc.SELinuxOptions != nil},
			{"seccompProfile", sc.SeccompProfile != nil},
			{"fsGroup", sc.FSGroup != nil},
			{"fsGroupChangePolicy", sc.FSGroupChangePolicy != nil},
			{"sysctls", len(sc.Sysctls) > 0},
			{"runAsUser", sc.RunAsUser != nil},
			{"runAsGroup", sc.RunAsGroup != nil},
			{"supplementalGroups", sc.SupplementalGroups != nil},
			{"supplementalGroupsPolicy", sc.SupplementalGroupsPolicy != nil},
			{"seLinuxChangePolicy", sc.SELinuxChangePolicy != nil},
		}...)...)
	}
	all = append(all, forbidOnWindows(path, []linuxOnly{
		{"hostUsers", spec.HostUsers != nil},
		{"hostPID", spec.HostPID},
		{"hostIPC", spec.HostIPC},
		{"shareProcessNamespace", spec.ShareProcessNamespace != nil},
	}...)...)
	eachContainer(spec, path, func(c *corev1.Container, at *field.Path) {
		if sc := c.SecurityContext; sc != nil {
			all = append(all, forbidOnWindows(at.Child("securityContext"), []linuxOnly{
				{"appArmorProfile", sc.AppArmorProfile != nil},
				{"seLinuxOptions", sc.SELinuxOptions != nil},
				{"seccompProfile", sc.SeccompProfile != nil},
				{"capabilities", sc.Capabilities != nil},
				{"readOnlyRootFilesystem", sc.ReadOnlyRootFilesystem != nil},
				{"privileged", sc.Privileged != nil},
				{"allowPrivilegeEscalation", sc.AllowPrivilegeEscalation != nil},
				{"procMount", sc.ProcMount != nil},
				{"runAsUser", sc.RunAsUser != nil},
				{"runAsGroup", sc.RunAsGroup != nil},
			}...)...)
		}
	})
	return all
}

// validateHostProcess requires all containers of a pod, or none, to be host processes.
func validateHostProcess(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var all field.ErrorList
	var ofPod *bool
	if sc := spec.SecurityContext; sc != nil && sc.WindowsOptions != nil {
		ofPod = sc.WindowsOptions.HostProcess
	}
	containers, processes := 0, 0
	eachContainer(spec, path, func(c *corev1.Container, at *field.Path) {
		containers++
		own := ofPod
		if sc := c.SecurityContext; sc != nil && sc.WindowsOptions != nil && sc.WindowsOptions.HostProcess != nil {
			own = sc.WindowsOptions.HostProcess
		}
		if ofPod != nil && *own != *ofPod {
			all = append(all, field.Invalid(at.Child("securityContext", "windowsOptions", "hostProcess"), *own,
				fmt.Sprintf("pod hostProcess value must be identical if both are specified, was %v", *ofPod)))
		}
		if rule.IsTrue(own) {
			processes++
		}
	})
	if processes == 0 {
		return all
	}
	if processes != containers {
		all = append(all, field.Invalid(path, "", "If pod contains any hostProcess containers then all containers must be HostProcess containers"))
	}
	if !spec.HostNetwork {
		all = append(all, field.Invalid(path.Child("hostNetwork"), false, "hostNetwork must be true if pod contains any hostProcess containers"))
	}
	return all
}

const (
	maxCredentialSpec    = 64 << 10
	maxWindowsDomainName = 256
	maxWindowsUserName   = 104
)

// The syntax of user and domain names on Windows.
var (
	controlCharacters = rule.Pattern(`[[:cntrl:]]`)
	netBIOSDomain     = rule.Pattern(`^[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}$`)
	dnsDomain         = rule.Pattern(`^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$`)
	dotsAndSpaces     = rule.Pattern(`^[. ]+$`)
)

const notInUserNames = `"/\:;|=,+*?<>@[]`

func validateWindowsOptions(o *corev1.WindowsSecurityContextOptions, path *field.Path) field.ErrorList {
	var all field.ErrorList
	if o == nil {
		return nil
	}
	if name := o.GMSACredentialSpecName; name != nil {
		all = append(all, rule.Invalid(path.Child("gmsaCredentialSpecName"), *name, validation.IsDNS1123Subdomain(*name))...)
	}
	if spec := o.GMSACredentialSpec; spec != nil {
		at := path.Child("gmsaCredentialSpec")
		switch n := len(*spec); {
		case n == 0:
			all = append(all, field.Invalid(at, *spec, "gmsaCredentialSpec cannot be an empty string"))
		case n > maxCredentialSpec:
			all = append(all, field.Invalid(at, *spec, "gmsaCredentialSpec size must be under 64 KiB"))
		}
	}
	if name := o.RunAsUserName; name != nil {
		for _, problem := range windowsUserProblems(*name) {
			all = append(all, field.Invalid(path.Child("runAsUserName"), *name, problem))
		}
	}
	return all
}

// windowsUserProblems returns the errors of a name like DOMAIN\\user.
func windowsUserProblems(name string) []string {
	switch {
	case name == "":
		return []string{"runAsUserName cannot be an empty string"}
	case controlCharacters().MatchString(name):
		return []string{"runAsUserName cannot contain control characters"}
	case strings.Count(name, `\`) > 1:
		return []string{"runAsUserName cannot contain more than one backslash"}
	}
	var problems []string
	domain, user, qualified := strings.Cut(name, `\`)
	if !qualified {
		domain, user = "", name
	}
	if len(domain) >= maxWindowsDomainName {
		problems = append(problems, "runAsUserName's Domain length must be under 256 characters")
	}
	if qualified && !netBIOSDomain().MatchString(domain) && !dnsDomain().MatchString(domain) {
		problems = append(problems, "runAsUserName's Domain doesn't match the NetBios nor the DNS format")
	}
	switch n := len(user); {
	case n == 0:
		problems = append(problems, "runAsUserName's User cannot be empty")
	case n > maxWindowsUserName:
		problems = append(problems, "runAsUserName's User length must not be longer than 104 characters")
	}
	if dotsAndSpaces().MatchString(user) {
		problems = append(problems, "runAsUserName's User cannot contain only periods or spaces")
	}
	if strings.ContainsAny(user, notInUserNames) {
		problems = append(problems, "runAsUserName's User cannot contain the following characters: "+notInUserNames)
	}
	return problems
}
