package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/admission/plugins"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// TestAdmissionConfiguration checks that the configuration of PodSecurity is used, and that invalid
// configurations are rejected, also those of plugins that are off.
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

	for _, tc := range []struct{ name, enable, file, want string }{
		{"missing", "", filepath.Join(dir, "nowhere"), "unable to read admission control configuration"},
		{"other kind", "", write("kind", "apiVersion: v1\nkind: ConfigMap\n"), "want an AdmissionConfiguration"},
		{"unknown field", "", write("field", head+"plugin: []\n"), `unknown field "plugin"`},
		{"missing path", "", write("path", head+"plugins: [{name: PodSecurity, path: nowhere}]"), "no such file"},
		{"unknown level", "", write("level", head+"plugins: [{name: PodSecurity, configuration: {apiVersion: pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration, defaults: {enforce: hard}}}]"), "must be one of privileged, baseline, restricted"},
		{"of a plugin without one", "", write("other", head+"plugins: [{name: LimitRanger, path: x}]"),
			`plugin "LimitRanger" cannot be configured, only EventRateLimit, ImagePolicyWebhook, MutatingAdmissionPolicy,`},
		{"twice", "", write("twice", head+"plugins: [{name: PodSecurity}, {name: PodSecurity}]"), `plugin "PodSecurity" is configured twice`},
		{"event limits", "", write("events", head+"plugins: [{name: EventRateLimit, configuration: {apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration}}]"),
			`couldn't init admission plugin "EventRateLimit": limits: Invalid value: null: must not be empty`},
		{"node selectors", "", write("selectors", head+"plugins: [{name: PodNodeSelector, configuration: {podNodeSelectorPluginConfig: {ns: a}}}]"),
			`couldn't init admission plugin "PodNodeSelector": podNodeSelectorPluginConfig.ns: invalid selector: [a]`},
		{"tolerations", "", write("tolerations", head+"plugins: [{name: PodTolerationRestriction, configuration: {kind: Configuration}}]"), `couldn't init admission plugin "PodTolerationRestriction": kind is "Configuration" and apiVersion is ""`},
		{"images", "", write("images", head+"plugins: [{name: ImagePolicyWebhook, configuration: {imagePolicy: {kubeConfigFile: nowhere}}}]"),
			`couldn't init admission plugin "ImagePolicyWebhook": imagePolicy.kubeConfigFile nowhere: stat nowhere: no such file`},
		{name: "none for ImagePolicyWebhook", enable: "ImagePolicyWebhook", want: `couldn't init admission plugin "ImagePolicyWebhook": it needs a configuration`},
		{name: "none for a plugin that needs one", enable: "EventRateLimit", want: `couldn't init admission plugin "EventRateLimit": limits: Invalid value: null: must not be empty`},
	} {
		o := plugins.Options{ConfigFile: tc.file}
		if tc.enable != "" {
			o.Enable = []string{tc.enable}
		}
		if _, err := Start(t.Context(), Options{Admission: o}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}

	server, err := Start(t.Context(), Options{Admission: plugins.Options{ConfigFile: write("good", head+"plugins: [{name: PodSecurity, path: security.yaml}]")}})
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
