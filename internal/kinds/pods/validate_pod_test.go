package pods

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func TestQOSClass(t *testing.T) {
	for _, c := range []struct {
		containers []corev1.ResourceRequirements
		pod        *corev1.ResourceRequirements
		want       corev1.PodQOSClass
	}{
		{nil, nil, corev1.PodQOSBestEffort},
		{[]corev1.ResourceRequirements{{}}, nil, corev1.PodQOSBestEffort},
		{[]corev1.ResourceRequirements{{Requests: list("cpu", "1")}}, nil, corev1.PodQOSBurstable},
		{[]corev1.ResourceRequirements{{Requests: list("cpu", "1", "memory", "1"), Limits: list("cpu", "1", "memory", "1")}}, nil, corev1.PodQOSGuaranteed},
		{[]corev1.ResourceRequirements{{Requests: list("cpu", "1", "memory", "1"), Limits: list("cpu", "1", "memory", "1")}, {}}, nil, corev1.PodQOSBurstable},
		{[]corev1.ResourceRequirements{{Requests: list("example.com/a", "1")}}, nil, corev1.PodQOSBestEffort},
		{[]corev1.ResourceRequirements{{}}, &corev1.ResourceRequirements{Requests: list("cpu", "1", "memory", "1"), Limits: list("cpu", "1", "memory", "1")}, corev1.PodQOSGuaranteed},
	} {
		spec := &corev1.PodSpec{Resources: c.pod}
		for _, r := range c.containers {
			spec.Containers = append(spec.Containers, corev1.Container{Resources: r})
		}
		if got := QOSClass(spec); got != c.want {
			t.Errorf("%v: got %s, want %s", c.containers, got, c.want)
		}
	}
}

// TestTotalResources checks that init containers run one after another before the others, beside
// the sidecars started before them.
func TestTotalResources(t *testing.T) {
	requests := func(cpu string, sidecar bool) corev1.Container {
		c := corev1.Container{Resources: corev1.ResourceRequirements{Requests: list("cpu", cpu)}}
		if sidecar {
			c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}
		return c
	}
	for _, c := range []struct {
		init, containers []corev1.Container
		want             string
	}{
		{nil, []corev1.Container{requests("1", false), requests("2", false)}, "3"},
		{[]corev1.Container{requests("5", false)}, []corev1.Container{requests("1", false)}, "5"},
		{[]corev1.Container{requests("1", true), requests("5", false)}, []corev1.Container{requests("2", false)}, "6"},
		{[]corev1.Container{requests("5", false), requests("1", true)}, []corev1.Container{requests("2", false)}, "5"},
		{[]corev1.Container{requests("1", true), requests("1", true)}, []corev1.Container{requests("2", false)}, "4"},
	} {
		spec := &corev1.PodSpec{InitContainers: c.init, Containers: c.containers}
		total := totalResources(spec, func(c *corev1.Container) corev1.ResourceList { return c.Resources.Requests })
		if got := total.Cpu().String(); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

func TestWindowsUserNames(t *testing.T) {
	for name, want := range map[string]string{
		"user": "", `DOMAIN\user`: "", `example.com\user`: "",
		"": "empty string", "a\tb": "control characters", `a\b\c`: "more than one backslash", `.d\user`: "NetBios nor the DNS",
		`d\`: "cannot be empty", "..": "only periods", "a|b": "following characters", strings.Repeat("a", 105): "104 characters",
	} {
		problems := strings.Join(windowsUserProblems(name), ";")
		if want == "" && problems != "" || !strings.Contains(problems, want) {
			t.Errorf("%q: got %q, want %q", name, problems, want)
		}
	}
}

func TestSysctlNamespace(t *testing.T) {
	for name, want := range map[string]string{
		"net.ipv4.ip_forward": "net", "net/ipv4/conf/eth0.1/forwarding": "net", "kernel.shmmax": "ipc", "kernel/msgmax": "ipc",
		"kernel.sem": "ipc", "fs.mqueue.msg_max": "ipc", "fs.file-max": "", "vm.swappiness": "",
	} {
		if got := sysctlNamespace(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestSigner(t *testing.T) {
	for name, want := range map[string]string{
		"example.com/a.b": "", "": "Required", "a/b/c": "form 'example.com/signer-name'", "example/a": "two segments",
		"Example.com/a": `validating label "Example"`, "example.com/A": `validating label "A"`,
	} {
		var got []string
		for _, err := range validateSigner(name, field.NewPath("signer")) {
			got = append(got, err.Error())
		}
		if all := strings.Join(got, ";"); want == "" && all != "" || !strings.Contains(all, want) {
			t.Errorf("%q: got %q, want %q", name, all, want)
		}
	}
}
