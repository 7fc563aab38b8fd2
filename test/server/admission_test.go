package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kapok-dev/kapok"
)

// A step is a request to a server, and a part of its answer.
type step struct {
	method, path, body string
	code               int
	want               string // part of the answer
	absent             string // no part of it
}

// TestAdmissionPlugins turns on each plugin that is off by default, and off one that is on, and
// looks at a write that it changes or rejects.
func TestAdmissionPlugins(t *testing.T) {
	const (
		core = "/api/v1/namespaces/default"
		pods = core + "/pods"
		pod  = `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i:1","imagePullPolicy":"Never"%s}]%s}}`
		node = `{"metadata":{"name":"n","labels":{"topology.kubernetes.io/zone":"z"}},"status":{"allocatable":{"cpu":"2"}}}`
		bind = `{"metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}}`
		cm   = `{"metadata":{"name":"c"}}`
	)
	plain := fmt.Sprintf(pod, "", "")
	requests := fmt.Sprintf(pod, `,"resources":{"requests":{"cpu":"1","example.com/d":"1"},"limits":{"cpu":"1","example.com/d":"1"}}`, "")
	annotate := func(annotation, value string) step {
		return step{"PATCH", "/api/v1/namespaces/default", fmt.Sprintf(`{"metadata":{"annotations":{"scheduler.alpha.kubernetes.io/%s":%q}}}`, annotation, value), 200, "", ""}
	}
	event := func(name string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q},"involvedObject":{"namespace":"default","name":"p","kind":"Pod"}}`, name)
	}
	for _, tc := range []struct {
		plugin, config string
		without        []step // on a server with the plugin off
		with           []step // on one with the plugin on
	}{
		{"AlwaysAdmit", "", nil, []step{{"POST", core + "/configmaps", cm, 201, "", ""}}},
		{"AlwaysDeny", "", nil, []step{
			{"POST", core + "/configmaps", cm, 403, `configmaps \"c\" is forbidden: admission control is denying all modifications`, ""},
			{"DELETE", "/api/v1/namespaces/kube-node-lease", "", 403, "denying all modifications", ""},
			{"GET", "/api/v1/namespaces/default", "", 200, "", ""},
		}},
		{"AlwaysPullImages", "", []step{{"POST", pods, plain, 201, `"imagePullPolicy":"Never"`, ""}}, []step{{"POST", pods, plain, 201, `"imagePullPolicy":"Always"`, ""}}},
		{"DenyServiceExternalIPs", "", nil, []step{{"POST", core + "/services", `{"metadata":{"name":"s"},"spec":{"externalIPs":["1.2.3.4"],"ports":[{"port":1}]}}`, 403, "Use of external IPs is denied by admission control", ""}}},
		{"EventRateLimit", "{apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, limits: [{type: Namespace, qps: 1, burst: 2}]}", nil, []step{
			{"POST", core + "/events", event("a"), 201, "", ""},
			{"POST", core + "/events?dryRun=All", event("b"), 201, "", ""},
			{"POST", core + "/events", event("b"), 201, "", ""},
			{"POST", core + "/events", event("c"), 429, "Too many requests: limit reached on type Namespace for key default", ""},
			{"PATCH", core + "/events/a", `{"count":2}`, 429, "TooManyRequests", ""},
			{"POST", "/apis/events.k8s.io/v1/namespaces/default/events", `{"metadata":{"name":"d"},"eventTime":"2020-01-01T00:00:00.000000Z","type":"Normal","reason":"r","action":"a",
				"reportingController":"example.com/c","reportingInstance":"i","regarding":{"namespace":"default","name":"p","kind":"Pod"}}`, 201, "", ""},
		}},
		{"ExtendedResourceToleration", "", []step{{"POST", pods, requests, 201, "", `"key":"example.com/d"`}}, []step{{"POST", pods, requests, 201, `{"effect":"NoSchedule","key":"example.com/d","operator":"Exists"}`, ""}}},
		{"LimitPodHardAntiAffinityTopology", "", nil, []step{{"POST", pods, fmt.Sprintf(pod, "",
			`,"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"zone","labelSelector":{}}]}}`), 403, "has TopologyKey zone but only key kubernetes.io/hostname is allowed", ""}}},
		{"NamespaceAutoProvision", "", []step{{"POST", "/api/v1/namespaces/new/configmaps", cm, 404, `namespaces \"new\" not found`, ""}}, []step{
			{"POST", "/api/v1/namespaces/new/configmaps?dryRun=All", cm, 404, `namespaces \"new\" not found`, ""},
			{"POST", "/api/v1/namespaces/new/configmaps", cm, 201, "", ""},
			{"GET", "/api/v1/namespaces/new", "", 200, `"phase":"Active"`, ""},
			{"PATCH", "/api/v1/namespaces/applied/configmaps/c?fieldManager=m", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`, 201, "", ""},
		}},
		{"NamespaceExists", "", nil, []step{
			{"POST", "/api/v1/namespaces/new/configmaps", cm, 404, `namespaces \"new\" not found`, ""},
			{"POST", core + "/configmaps", cm, 201, "", ""},
		}},
		{"PodNodeSelector", "{podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: zone=a, default: 'zone=a,disk=ssd'}}", nil, []step{
			{"POST", pods, plain, 201, `"nodeSelector":{"zone":"a"}`, ""},
			{"POST", pods, fmt.Sprintf(pod, "", `,"nodeSelector":{"disk":"hdd"}`), 403, "pod node label selector labels conflict with its namespace whitelist", ""},
			annotate("node-selector", "disk=ssd"),
			{"POST", pods, fmt.Sprintf(pod, "", `,"nodeSelector":{"disk":"hdd"}`), 403, "pod node label selector conflicts with its namespace node label selector", ""},
		}},
		{"PodTolerationRestriction", "{apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1, kind: Configuration, default: [{key: a, operator: Exists}]}", nil, []step{
			{"POST", pods, plain, 201, `{"key":"a","operator":"Exists"}`, ""},
			annotate("tolerationsWhitelist", `[{"key":"b","operator":"Exists"}]`),
			{"POST", pods, strings.Replace(plain, `"p"`, `"q"`, 1), 500, "conflict with its namespace whitelist", ""},
		}},
		{"PodTopologyLabels", "", []step{
			{"POST", "/api/v1/nodes", node, 201, "", ""},
			{"POST", pods, fmt.Sprintf(pod, "", `,"nodeName":"n"`), 201, "", "topology.kubernetes.io/zone"},
		}, []step{
			{"POST", "/api/v1/nodes", node, 201, "", ""},
			{"POST", pods, plain, 201, "", "topology.kubernetes.io/zone"},
			{"POST", pods + "/p/binding", bind, 201, "", ""},
			{"GET", pods + "/p", "", 200, `"topology.kubernetes.io/zone":"z"`, ""},
			{"POST", pods, strings.Replace(fmt.Sprintf(pod, "", `,"nodeName":"n"`), `"p"`, `"q"`, 1), 201, `"topology.kubernetes.io/zone":"z"`, ""},
		}},
		{"PodResizeValidator", "", []step{
			{"POST", pods, fmt.Sprintf(pod, `,"resources":{"requests":{"cpu":"1"}}`, `,"nodeName":"gone"`), 201, "", ""},
			{"PATCH", pods + "/p/resize", `{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"3"}}}]}}`, 200, "", ""},
		}, []step{
			{"POST", "/api/v1/nodes", node, 201, "", ""},
			{"POST", pods, fmt.Sprintf(pod, `,"resources":{"requests":{"cpu":"1"}}`, `,"nodeName":"n"`), 201, "", ""},
			{"PATCH", pods + "/p/resize", `{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"3"}}}]}}`, 403,
				"node didn't have enough allocatable resources: cpu, requested: 3000, allocatable: 2000", ""},
			{"PATCH", pods + "/p/resize", `{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"2"}}}]}}`, 200, "", ""},
		}},
		{"NodeDeclaredFeatureValidator", "", nil, []step{
			{"POST", "/api/v1/nodes", node, 201, "", ""},
			{"POST", pods, fmt.Sprintf(pod, "", `,"nodeName":"n","resources":{"requests":{"cpu":"1"}}`), 201, "", ""},
			{"PATCH", pods + "/p/resize", `{"spec":{"resources":{"requests":{"cpu":"2"}}}}`, 403,
				`pod update requires features InPlacePodLevelResourcesVerticalScaling which are not available on node \"n\"`, ""},
			{"PATCH", "/api/v1/nodes/n/status", `{"status":{"declaredFeatures":["InPlacePodLevelResourcesVerticalScaling"]}}`, 200, "", ""},
			{"PATCH", pods + "/p/resize", `{"spec":{"resources":{"requests":{"cpu":"2"}}}}`, 200, "", ""},
		}},
	} {
		t.Run(tc.plugin, func(t *testing.T) {
			try := func(o kapok.AdmissionOptions, steps []step) {
				synctest.Test(t, func(t *testing.T) {
					r := startRaw(t, kapok.Options{Admission: o})
					for _, s := range steps {
						patch := "application/strategic-merge-patch+json"
						if strings.Contains(s.path, "fieldManager") {
							patch = applyPatch
						}
						contentType := "application/json"
						if s.method == "PATCH" {
							contentType = patch
						}
						got := r.must(s.code, s.method, s.path, s.body, "Content-Type", contentType)
						if !strings.Contains(got, s.want) || s.absent != "" && strings.Contains(got, s.absent) {
							t.Errorf("%s %s: got %s, want %s and no %q", s.method, s.path, got, s.want, s.absent)
						}
					}
				})
			}
			if tc.without != nil {
				try(kapok.AdmissionOptions{Disable: []string{tc.plugin}}, tc.without)
			}
			o := kapok.AdmissionOptions{Enable: []string{tc.plugin}}
			if tc.config != "" {
				o.ConfigFile = filepath.Join(t.TempDir(), "admission.yaml")
				text := "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins: [{name: " + tc.plugin + ", configuration: " + tc.config + "}]\n"
				if err := os.WriteFile(o.ConfigFile, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			try(o, tc.with)
		})
	}
}
