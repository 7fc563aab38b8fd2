package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok"

	"github.com/google/go-cmp/cmp"
)

// retiredWorkloads are kinds with all their versions, the present one first, and a body that is
// valid in all of them.
var retiredWorkloads = []struct {
	plural, kind, body string
	versions           []string
}{
	{"replicasets", "ReplicaSet", replicated, []string{"apps/v1", "apps/v1beta2", "extensions/v1beta1"}},
	{"daemonsets", "DaemonSet", replicated, []string{"apps/v1", "apps/v1beta2", "extensions/v1beta1"}},
	{"statefulsets", "StatefulSet", replicated, []string{"apps/v1", "apps/v1beta2", "apps/v1beta1"}},
	{"controllerrevisions", "ControllerRevision", `"data":{"a":"b"},"revision":3`, []string{"apps/v1", "apps/v1beta2", "apps/v1beta1"}},
	{"cronjobs", "CronJob", `"spec":{"schedule":"@daily","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}}`,
		[]string{"batch/v1", "batch/v1beta1"}},
	{"horizontalpodautoscalers", "HorizontalPodAutoscaler", `"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"},"maxReplicas":3}`,
		[]string{"autoscaling/v2", "autoscaling/v1", "autoscaling/v2beta2", "autoscaling/v2beta1"}},
	{"poddisruptionbudgets", "PodDisruptionBudget", `"spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"x"}}}`, []string{"policy/v1", "policy/v1beta1"}},
}

const replicated = `"spec":{"selector":{"matchLabels":{"app":"x"}},"template":{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}`

// TestRetiredWorkloads writes and reads each kind in all its versions.
func TestRetiredWorkloads(t *testing.T) {
	r := startRaw(t, kapok.Options{RetiredAPIs: true})
	for _, w := range retiredWorkloads {
		at := func(version, rest string) string {
			return "/apis/" + version + "/namespaces/default/" + w.plural + rest
		}
		for i, version := range w.versions {
			name := fmt.Sprintf("in-%d", i)
			made := r.must(201, "POST", at(version, "?fieldValidation=Strict"),
				fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q},%s}`, version, w.kind, name, w.body))
			for _, other := range w.versions {
				seen := r.must(200, "GET", at(other, "/"+name), "")
				if field(t, seen, "apiVersion") != other || field(t, seen, "metadata", "uid") != field(t, made, "metadata", "uid") {
					t.Errorf("%s made in %s, read in %s: %.500s", w.plural, version, other, seen)
				}
				// An object can be written back.
				written := r.must(200, "PUT", at(other, "/"+name), seen)
				if diff := cmp.Diff(field(t, seen, "spec"), field(t, written, "spec")); diff != "" || field(t, written, "metadata", "generation") != field(t, made, "metadata", "generation") {
					t.Errorf("%s made in %s, written back in %s: %s", w.plural, version, other, diff)
				}
				applied := r.must(200, "PATCH", at(other, "/"+name+"?fieldManager=m&force=true&dryRun=All"),
					fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"labels":{"l":"m"}},%s}`, other, w.kind, name, w.body), "Content-Type", applyPatch)
				if field(t, applied, "metadata", "labels", "l") != "m" {
					t.Errorf("%s made in %s, applied in %s: %.500s", w.plural, version, other, applied)
				}
			}
		}
		for _, version := range w.versions {
			if list := r.must(200, "GET", at(version, ""), ""); len(field(t, list, "items").([]any)) != len(w.versions) || field(t, list, "kind") != w.kind+"List" {
				t.Errorf("%s in %s: %.500s", w.plural, version, list)
			}
			table := r.must(200, "GET", at(version, ""), "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
			if rows := field(t, table, "rows").([]any); len(rows) != len(w.versions) {
				t.Errorf("%s in %s: %.500s", w.plural, version, table)
			}
			group, number, _ := strings.Cut(version, "/")
			document := r.must(200, "GET", "/openapi/v3/apis/"+version, "")
			if !strings.Contains(document, fmt.Sprintf(`"io.k8s.api.%s.%s.%s"`, group, number, w.kind)) {
				t.Errorf("OpenAPI of %s has no %s", version, w.kind)
			}
		}
	}
}

// TestRetiredAutoscalerWarning checks the warnings of two versions whose types, which have the
// release of their removal, no longer exist.
func TestRetiredAutoscalerWarning(t *testing.T) {
	r := startRaw(t, kapok.Options{RetiredAPIs: true})
	for version, want := range map[string]string{
		"v2":      "",
		"v1":      "",
		"v2beta2": `299 - "autoscaling/v2beta2 HorizontalPodAutoscaler is deprecated in v1.23+, unavailable in v1.26+; use autoscaling/v2 HorizontalPodAutoscaler"`,
		"v2beta1": `299 - "autoscaling/v2beta1 HorizontalPodAutoscaler is deprecated in v1.22+, unavailable in v1.25+; use autoscaling/v2 HorizontalPodAutoscaler"`,
	} {
		resp, err := r.client.Get("http://kapok/apis/autoscaling/" + version + "/namespaces/default/horizontalpodautoscalers")
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get("Warning"); got != want || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s, warning is %s, want %s", version, resp.Status, got, want)
		}
	}
}

// A field that a version does not have is kept nevertheless.
func TestRetiredWorkloadFields(t *testing.T) {
	r := startRaw(t, kapok.Options{RetiredAPIs: true})
	post := func(version, plural, body string) {
		t.Helper()
		r.must(201, "POST", "/apis/"+version+"/namespaces/default/"+plural+"?fieldValidation=Strict", body)
	}
	get := func(version, plural, name string, path ...string) string {
		t.Helper()
		value, err := json.Marshal(field(t, r.must(200, "GET", "/apis/"+version+"/namespaces/default/"+plural+"/"+name, ""), path...))
		if err != nil {
			t.Fatal(err)
		}
		return string(value)
	}
	patch := func(version, plural, name, body string) {
		t.Helper()
		r.must(200, "PATCH", "/apis/"+version+"/namespaces/default/"+plural+"/"+name, body, "Content-Type", mergePatch)
	}
	expect := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: got %s, want %s", what, got, want)
		}
	}

	post("extensions/v1beta1", "daemonsets", `{"apiVersion":"extensions/v1beta1","kind":"DaemonSet","metadata":{"name":"d"},`+replicated+`}`)
	expect("strategy of old", get("apps/v1", "daemonsets", "d", "spec", "updateStrategy", "type"), `"OnDelete"`)
	patch("extensions/v1beta1", "daemonsets", "d", `{"spec":{"templateGeneration":9,"template":{"metadata":{"labels":{"a":"b"}}}}}`)
	expect("count of templates", get("apps/v1", "daemonsets", "d", "metadata", "annotations"), `{"deprecated.daemonset.template.generation":"2"}`)
	patch("apps/v1", "daemonsets", "d", `{"spec":{"template":{"metadata":{"labels":{"a":"c"}}}}}`)
	expect("count of templates", get("extensions/v1beta1", "daemonsets", "d", "spec", "templateGeneration"), `3`)
	expect("generation", get("extensions/v1beta1", "daemonsets", "d", "metadata", "generation"), `3`)

	post("autoscaling/v2beta1", "horizontalpodautoscalers", `{"apiVersion":"autoscaling/v2beta1","kind":"HorizontalPodAutoscaler","metadata":{"name":"h"},"spec":{"maxReplicas":3,
		"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"},"metrics":[{"type":"Pods","pods":{"metricName":"n","targetAverageValue":"5"}}]}}`)
	expect("metric", get("autoscaling/v2", "horizontalpodautoscalers", "h", "spec", "metrics"), `[{"pods":{"metric":{"name":"n"},"target":{"averageValue":"5","type":"AverageValue"}},"type":"Pods"}]`)
	patch("autoscaling/v2beta2", "horizontalpodautoscalers", "h", `{"spec":{"behavior":{"scaleDown":{"selectPolicy":"Disabled"}}}}`)
	patch("autoscaling/v2beta1", "horizontalpodautoscalers", "h", `{"spec":{"maxReplicas":4}}`)
	patch("autoscaling/v2beta1", "horizontalpodautoscalers", "h/status", `{"metadata":{"annotations":null},"status":{"currentReplicas":2}}`)
	expect("behavior", get("autoscaling/v2", "horizontalpodautoscalers", "h", "spec", "behavior", "scaleDown", "selectPolicy"), `"Disabled"`)
	expect("status", get("autoscaling/v1", "horizontalpodautoscalers", "h", "status", "currentReplicas"), `2`)

	post("policy/v1beta1", "poddisruptionbudgets", `{"apiVersion":"policy/v1beta1","kind":"PodDisruptionBudget","metadata":{"name":"b"},"spec":{"maxUnavailable":1,"selector":{}}}`)
	expect("nothing", get("policy/v1", "poddisruptionbudgets", "b", "spec", "selector"),
		`{"matchExpressions":[{"key":"pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match","operator":"Exists"}]}`)
	expect("nothing", get("policy/v1beta1", "poddisruptionbudgets", "b", "spec", "selector"), `{}`)
}
