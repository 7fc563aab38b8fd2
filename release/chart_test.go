package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// resources are those of the kinds that the chart has, in the order in which they are printed.
func resources() map[string]schema.GroupVersionResource {
	return map[string]schema.GroupVersionResource{
		"Deployment":          {Group: "apps", Version: "v1", Resource: "deployments"},
		"PodDisruptionBudget": {Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
		"Service":             {Version: "v1", Resource: "services"},
		"ServiceAccount":      {Version: "v1", Resource: "serviceaccounts"},
		"StatefulSet":         {Group: "apps", Version: "v1", Resource: "statefulsets"},
	}
}

// TestChart renders the chart, lets Helm lint it, and applies the objects to a server as a dry run.
func TestChart(t *testing.T) {
	server, err := kapok.Start(t.Context(), kapok.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	client, err := dynamic.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := loader.LoadDir(filepath.Join("chart", "kapok"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, values string
		want         string   // kinds
		contains     []string // in the objects, as JSON
	}{
		{"defaults", `{}`, "Service ServiceAccount StatefulSet", []string{
			`"image":"ghcr.io/kapok-dev/kapok:v0.0.0"`, `"storage":"1Gi"`, `"--data-dir=/var/lib/kapok/data"`, `"--tls-san=test-kapok.default.svc"`, `"runAsUser":65532`, `"replicas":1`,
		}},
		{"settings", `{image: {repository: example.com/k, tag: v9}, tlsSans: [api.example.com, "::1"], extraArgs: ["--controllers=*"], persistence: {size: 9Gi, storageClassName: fast},
			service: {type: LoadBalancer, port: 443, annotations: {a: b}}, serviceAccount: {annotations: {c: d}}, resources: {limits: {memory: 1Gi}}, podAnnotations: {e: f},
			imagePullSecrets: [{name: pull}], nodeSelector: {disk: fast}, tolerations: [{operator: Exists}], affinity: {nodeAffinity: {}}}`,
			"Service ServiceAccount StatefulSet", []string{
				`"image":"example.com/k:v9"`, `"--tls-san=api.example.com"`, `"--tls-san=::1"`, `"--controllers=*"`, `"storage":"9Gi"`, `"storageClassName":"fast"`, `"port":443`, `"a":"b"`, `"c":"d"`, `"e":"f"`,
			}},
		{"without a volume", `{persistence: {enabled: false}, serviceAccount: {create: false}}`, "Service StatefulSet", []string{`"emptyDir":{},"name":"data"`, `"serviceAccountName":"default"`}},
		{"etcd", `{etcd: {endpoints: ["etcd-0.etcd:2379", "etcd-1.etcd:2379"], tlsSecret: etcd-client}}`, "Deployment PodDisruptionBudget Service ServiceAccount", []string{
			`"--store=etcd://etcd-0.etcd:2379,etcd-1.etcd:2379"`, `"--etcd-cafile=/etc/kapok/etcd/ca.crt"`, `"secretName":"etcd-client"`, `"replicas":3`,
		}},
		{"etcd, one pod", `{replicas: 1, etcd: {endpoints: ["127.0.0.1:2379"]}}`, "Deployment Service ServiceAccount", []string{`"replicas":1`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			objects := render(t, loaded, tt.values)
			var kinds []string
			text := ""
			for _, object := range objects {
				kinds = append(kinds, object.GetKind())
				text += apply(t, client, object)
			}
			slices.Sort(kinds)
			if got := strings.Join(kinds, " "); got != tt.want {
				t.Errorf("kinds %s, want %s", got, tt.want)
			}
			for _, want := range tt.contains {
				if !strings.Contains(text, want) {
					t.Errorf("no object has %s:\n%s", want, text)
				}
			}
			lintChart(t, tt.values)
		})
	}
}

// apply applies an object as a dry run, and returns it as the server would store it.
func apply(t *testing.T, client dynamic.Interface, object *unstructured.Unstructured) string {
	t.Helper()
	resource, ok := resources()[object.GetKind()]
	if !ok {
		t.Fatalf("the chart has a %s", object.GetKind())
	}
	applied, err := client.Resource(resource).Namespace(object.GetNamespace()).Apply(t.Context(), object.GetName(), object,
		metav1.ApplyOptions{FieldManager: "test", DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		t.Fatalf("%s: %v", object.GetKind(), err)
	}
	data, err := applied.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// render returns the objects of the chart with values.
func render(t *testing.T, loaded *chart.Chart, values string) (objects []*unstructured.Unstructured) {
	t.Helper()
	files, err := rendered(t, loaded, values)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if strings.TrimSpace(text) == "" || strings.HasSuffix(name, ".txt") || strings.HasSuffix(name, ".tpl") {
			continue
		}
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(text), &object.Object); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		objects = append(objects, object)
	}
	return objects
}

// rendered returns the files of the chart with values, as the release "test" in the namespace
// default.
func rendered(t *testing.T, loaded *chart.Chart, values string) (map[string]string, error) {
	t.Helper()
	parsed, err := common.ReadValues([]byte(values))
	if err != nil {
		t.Fatal(err)
	}
	all, err := util.ToRenderValues(loaded, parsed, common.ReleaseOptions{Name: "test", Namespace: "default", IsInstall: true, Revision: 1}, nil)
	if err != nil {
		return nil, fmt.Errorf("values: %w", err)
	}
	return engine.Engine{Strict: true}.Render(loaded, all)
}

// lintChart lints the chart with values, as helm lint --strict.
func lintChart(t *testing.T, values string) {
	t.Helper()
	parsed, err := common.ReadValues([]byte(values))
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range lint.RunAll(filepath.Join("chart", "kapok"), parsed, "default").Messages {
		if message.Severity >= support.WarningSev {
			t.Error(message)
		}
	}
}

// TestChartRejects checks which values the schema of the chart rejects.
func TestChartRejects(t *testing.T) {
	loaded, err := loader.LoadDir(filepath.Join("chart", "kapok"))
	if err != nil {
		t.Fatal(err)
	}
	for _, values := range []string{
		`{replicas: 0}`, `{etcd: {endpoints: ["http://etcd:2379"]}}`, `{etcd: {endpoints: etcd}}`, `{service: {port: 0}}`, `{service: {type: ExternalName}}`, `{extraArgs: --nodes=3}`, `{image: {repository: ""}}`,
	} {
		if _, err := rendered(t, loaded, values); err == nil {
			t.Errorf("%s is accepted", values)
		}
	}
}

// TestVersioned checks the versions of the packed chart.
func TestVersioned(t *testing.T) {
	text, err := charts.ReadFile("chart/kapok/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r := &release{options: options{version: "v1.2.3-rc.4"}}
	got, err := r.versioned(text)
	if err != nil || !strings.Contains(string(got), "\nversion: 1.2.3-rc.4\nappVersion: v1.2.3-rc.4\n") {
		t.Errorf("%v\n%s", err, got)
	}
	if _, err := r.versioned([]byte("apiVersion: v2\n")); err == nil {
		t.Error("a chart without versions is accepted")
	}
}
