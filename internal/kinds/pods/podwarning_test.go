package pods_test

import (
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/kindtest"
	"github.com/kapok-dev/kapok/internal/kinds/pods"
)

func TestPodWarnings(t *testing.T) {
	for _, c := range []struct{ sent, want string }{
		{`{metadata: {name: p}, spec: {containers: [` + kindtest.Container + `]}}`, ""},
		{`{metadata: {name: p.q}, spec: {containers: [` + kindtest.Container + `]}}`, "metadata.name: this is used in the Pod's hostname"},
		{`{metadata: {name: p}, spec: {nodeSelector: {beta.kubernetes.io/os: linux}}}`,
			`spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead`},
		{`{metadata: {name: p}, spec: {containers: [{name: c, ports: [{containerPort: 80}]}, {name: d, ports: [{containerPort: 80, hostPort: 8}]}]}}`,
			"spec.containers[1].ports[0]: overlapping port definition with spec.containers[0].ports[0]"},
		{`{metadata: {name: p}, spec: {containers: [{name: c, env: [{name: A, value: a}, {name: A, value: $(A)b}]}]}}`, ""},
		{`{metadata: {name: p}, spec: {volumes: [{name: v, secret: {secretName: s, items: [{key: a, path: a}, {key: b, path: a/b}]}}]}}`,
			`volume "v" (Secret "s"): overlapping paths: "a/b" with "a"`},
	} {
		warnings := strings.Join(kindtest.Definition(t, "pods").Strategy.Warnings(kindtest.Decode(t, "pods", c.sent), nil), "\n")
		if c.want == "" && warnings != "" || !strings.Contains(warnings, c.want) {
			t.Errorf("%s: got %q, want %q", c.sent, warnings, c.want)
		}
	}
}

// TestTemplateWarnings checks that warnings of a template have its path, and are returned only when
// it changes.
func TestTemplateWarnings(t *testing.T) {
	warn := pods.WarnOfTemplate("spec", "template")
	const template = `{metadata: {name: d}, spec: {template: {spec: {hostAliases: [{ip: 1.2.3.4}, {ip: 1.2.3.4}]}}}}`
	obj := kindtest.Decode(t, "deployments", template)
	want := `spec.template.spec.hostAliases[1].ip: duplicate ip "1.2.3.4"`
	if got := warn(obj, nil); len(got) != 1 || got[0] != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := warn(obj, kindtest.Decode(t, "deployments", template)); got != nil {
		t.Errorf("warnings without a change: %q", got)
	}
}

func TestPodIsCompleted(t *testing.T) {
	s := kindtest.NewServer(t)
	s.Must(s.Create("pods", `{metadata: {name: p, labels: {app: a}, annotations: {container.apparmor.security.beta.kubernetes.io/c: runtime/default}}, spec: {
		containers: [{name: c, image: i, resources: {requests: {cpu: 1}}, lifecycle: {stopSignal: SIGTERM}}],
		resources: {limits: {cpu: 2}},
		topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {}, matchLabelKeys: [app, other]}]}}`))
	pod := s.Get("pods", "p")
	c := kind.Items(pod, "spec", "containers")[0]
	if got := kind.Text(c, "securityContext", "appArmorProfile", "type"); got != "RuntimeDefault" {
		t.Errorf("AppArmor profile %q", got)
	}
	if c["lifecycle"] != nil {
		t.Error("the stop signal has been kept")
	}
	if got := kind.Text(pod, "spec", "resources", "requests", "cpu"); got != "1" {
		t.Errorf("the pod requests %q", got)
	}
	selector := kind.Items(pod, "spec", "topologySpreadConstraints")[0]["labelSelector"]
	expressions := kind.Items(selector.(map[string]any), "matchExpressions")
	if len(expressions) != 1 || kind.Text(expressions[0], "key") != "app" || kind.Text(expressions[0], "operator") != "In" {
		t.Errorf("expressions %v", expressions)
	}
}
