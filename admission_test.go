package kapok

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func TestAdmissionPlugins(t *testing.T) {
	for _, tc := range []struct {
		name            string
		enable, disable []string
		want            string // of the error
		on, off         []string
	}{
		{name: "defaults", on: []string{"LimitRanger", "ResourceQuota", "PodSecurity", "NamespaceLifecycle"}, off: []string{"OwnerReferencesPermissionEnforcement", "AlwaysDeny"}},
		{name: "changed", enable: []string{"OwnerReferencesPermissionEnforcement"}, disable: []string{"ResourceQuota"},
			on: []string{"OwnerReferencesPermissionEnforcement", "LimitRanger"}, off: []string{"ResourceQuota"}},
		{name: "unknown", enable: []string{"Nobody"}, disable: []string{"nowhere"},
			want: "enable-admission-plugins plugin \"Nobody\" is unknown\ndisable-admission-plugins plugin \"nowhere\" is unknown"},
		{name: "both", enable: []string{"Priority", "LimitRanger"}, disable: []string{"LimitRanger", "Priority"},
			want: "[LimitRanger Priority] in enable-admission-plugins and disable-admission-plugins overlapped"},
		{name: "not there", enable: []string{"AlwaysPullImages"}, want: `enable-admission-plugins plugin "AlwaysPullImages" is one of Kubernetes', which Kapok does not have`},
		{name: "not to be turned off", disable: []string{"NamespaceLifecycle"}, want: `disable-admission-plugins plugin "NamespaceLifecycle" is a part of the server, and cannot be turned off`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := AdmissionOptions{Enable: tc.enable, Disable: tc.disable}
			got := ""
			if err := o.validate(); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			for _, name := range tc.on {
				if !o.on(name) {
					t.Errorf("%s is off", name)
				}
			}
			for _, name := range tc.off {
				if o.on(name) {
					t.Errorf("%s is on", name)
				}
			}
		})
	}
}

// TestAdmissionConfiguration: the configuration of PodSecurity is used, and one that cannot be used is refused.
func TestAdmissionConfiguration(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n"
	const security = "apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\n"
	write("security.yaml", security+"defaults: {enforce: baseline}\nexemptions: {namespaces: [exempt]}\n")

	for _, tc := range []struct{ name, file, want string }{
		{"missing", filepath.Join(dir, "nowhere"), "unable to read admission control configuration"},
		{"other kind", write("kind", "apiVersion: v1\nkind: ConfigMap\n"), "want an AdmissionConfiguration"},
		{"unknown field", write("field", head+"plugin: []\n"), `unknown field "plugin"`},
		{"missing path", write("path", head+"plugins: [{name: PodSecurity, path: nowhere}]"), "no such file"},
		{"unknown level", write("level", head+"plugins: [{name: PodSecurity, configuration: {apiVersion: pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration, defaults: {enforce: hard}}}]"), "must be one of privileged, baseline, restricted"},
		{"of another plugin", write("other", head+"plugins: [{name: EventRateLimit, path: x}]"), "EventRateLimit"},
	} {
		if _, err := Start(t.Context(), Options{Admission: AdmissionOptions{ConfigFile: tc.file}}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}

	server, err := Start(t.Context(), Options{Admission: AdmissionOptions{ConfigFile: write("good", head+"plugins: [{name: PodSecurity, path: security.yaml}]")}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	core := kubernetes.NewForConfigOrDie(server.Config()).CoreV1()
	if _, err := core.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "exempt"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	if _, err := core.Pods("exempt").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	const want = `pods "p" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)`
	if _, err := core.Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}
