package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok"
)

const deployments = "/apis/apps/%s/namespaces/default/deployments"

func deployment(version, name, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"apps/%s","kind":"Deployment","metadata":{"name":%q},"spec":{%s
		"template":{"metadata":{"labels":{"app":"x"}},"spec":{"containers":[{"name":"c","image":"nginx"}]}}}}`, version, name, spec)
}

// field returns a value in a JSON document.
func field(t testing.TB, document string, path ...string) any {
	t.Helper()
	var at any
	if err := json.Unmarshal([]byte(document), &at); err != nil {
		t.Fatalf("%v: %.300s", err, document)
	}
	for _, key := range path {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[key]
	}
	return at
}

// firstEvent watches until the first event.
func firstEvent(t testing.TB, r *raw, path string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://kapok"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return line
}

// With the option, group apps serves v1, v1beta2 and v1beta1 (row A9).
func TestRetiredAPIs(t *testing.T) {
	r := startRaw(t, kapok.Options{RetiredAPIs: true})
	at := func(version, rest string) string { return fmt.Sprintf(deployments, version) + rest }

	group := r.must(200, "GET", "/apis/apps", "")
	var versions []string
	for _, v := range field(t, group, "versions").([]any) {
		versions = append(versions, v.(map[string]any)["version"].(string))
	}
	if got := strings.Join(versions, " "); got != "v1 v1beta2 v1beta1" || field(t, group, "preferredVersion", "version") != "v1" {
		t.Errorf("versions of apps: %s", group)
	}
	for _, path := range []string{"/apis/apps/v1beta1", "/openapi/v3/apis/apps/v1beta2", "/apis/coordination.k8s.io/v1beta1"} {
		r.must(200, "GET", path, "")
	}

	// An object created in v1beta1 has the defaults of v1beta1, in all versions.
	made := r.must(201, "POST", at("v1beta1", "?fieldManager=old"), deployment("v1beta1", "old", `"rollbackTo":{"revision":3},`))
	if got := field(t, made, "apiVersion"); got != "apps/v1beta1" {
		t.Errorf("created in %v", got)
	}
	for _, version := range []string{"v1", "v1beta2", "v1beta1"} {
		d := r.must(200, "GET", at(version, "/old"), "")
		if got := field(t, d, "apiVersion"); got != "apps/"+version {
			t.Errorf("%s: read in %v", version, got)
		}
		if got := field(t, d, "spec", "revisionHistoryLimit"); got != float64(2) {
			t.Errorf("%s: revisionHistoryLimit is %v, want that of v1beta1", version, got)
		}
		if got := field(t, d, "spec", "selector", "matchLabels", "app"); got != "x" {
			t.Errorf("%s: the selector is not that of the template: %v", version, got)
		}
		annotation := field(t, d, "metadata", "annotations", "deprecated.deployment.rollback.to")
		if revision := field(t, d, "spec", "rollbackTo", "revision"); version == "v1beta1" && (revision != float64(3) || annotation != nil) ||
			version != "v1beta1" && annotation != "3" {
			t.Errorf("%s: rollbackTo %v, annotation %v", version, revision, annotation)
		}
		list := r.must(200, "GET", at(version, ""), "")
		if got := field(t, list, "apiVersion"); got != "apps/"+version || strings.Count(list, `"name":"old"`) == 0 {
			t.Errorf("%s: list of %v", version, got)
		}
	}

	// Conversely, fields that are absent in v1 are absent in v1beta1.
	r.must(201, "POST", at("v1", ""), deployment("v1", "new", `"selector":{"matchLabels":{"app":"x"}},`))
	d := r.must(200, "GET", at("v1beta1", "/new"), "")
	if labels := field(t, d, "metadata", "labels"); labels != nil {
		t.Errorf("a read in v1beta1 set labels: %v", labels)
	}
	table := r.must(200, "GET", at("v1beta1", "/new"), "", "Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
	if !strings.Contains(table, `"cells":["new","0/1",0,0,`) {
		t.Errorf("table in v1beta1: %.600s", table)
	}
	r.must(200, "PATCH", at("v1beta2", "/new"), `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"nginx:2"}]}}}}`,
		"Content-Type", "application/strategic-merge-patch+json")
	scaled := r.must(200, "PATCH", at("v1beta1", "/new/scale"), `{"spec":{"replicas":4}}`, "Content-Type", mergePatch)
	if got := field(t, r.must(200, "GET", at("v1", "/new"), ""), "spec", "replicas"); got != float64(4) {
		t.Errorf("scaled to %v: %s", got, scaled)
	}
	// An object can be written back, also through /status, without losing fields that the version
	// does not have.
	d = r.must(200, "GET", at("v1beta1", "/new"), "")
	r.must(200, "PUT", at("v1beta1", "/new"), d)
	status := r.must(200, "PATCH", at("v1beta2", "/new/status"), `{"status":{"replicas":4}}`, "Content-Type", mergePatch)
	if got := field(t, status, "status", "replicas"); got != float64(4) {
		t.Errorf("status: %s", status)
	}
	if got := r.must(200, "GET", at("v1beta1", "/new"), "", "Accept", "application/vnd.kubernetes.protobuf"); !strings.HasPrefix(got, "k8s\x00") {
		t.Errorf("protobuf: %q", got)
	}
	if got := firstEvent(t, r, at("v1beta1", "?watch=true")); field(t, got, "type") != "ADDED" || field(t, got, "object", "apiVersion") != "apps/v1beta1" {
		t.Errorf("watch: %s", got)
	}

	// Validation errors name the fields of the client's version.
	refused := r.must(422, "POST", at("v1beta1", ""), deployment("v1beta1", "bad", `"replicas":-1,`))
	if !strings.Contains(refused, "spec.replicas: Invalid value: -1: must be greater than or equal to 0") {
		t.Errorf("rejected with %s", refused)
	}
	r.must(400, "POST", at("v1beta1", "?fieldValidation=Strict"), deployment("v1beta1", "bad", `"foo":1,`))

	lease := `{"apiVersion":"coordination.k8s.io/v1beta1","kind":"Lease","metadata":{"name":"l"},"spec":{"holderIdentity":"me"}}`
	r.must(201, "POST", "/apis/coordination.k8s.io/v1beta1/namespaces/default/leases", lease)
	r.must(200, "GET", "/apis/coordination.k8s.io/v1/namespaces/default/leases/l", "")
}

// Fields that were applied in an old version are owned in the new one.
func TestRetiredManagedFields(t *testing.T) {
	r := startRaw(t, kapok.Options{RetiredAPIs: true})
	at := func(version, rest string) string { return fmt.Sprintf(deployments, version) + rest }
	apply := func(version, manager, spec string) (int, string) {
		return r.do("PATCH", at(version, "/d?fieldManager="+manager), deployment(version, "d", spec), "Content-Type", applyPatch)
	}
	if code, text := apply("v1beta1", "one", `"replicas":3,"minReadySeconds":5,"selector":{"matchLabels":{"app":"x"}},`); code != 201 {
		t.Fatalf("%d %s", code, text)
	}
	code, text := apply("v1", "two", `"replicas":4,"selector":{"matchLabels":{"app":"x"}},`)
	if code != 409 || !strings.Contains(text, `conflict with \"one\": .spec.replicas`) {
		t.Errorf("%d %s", code, text)
	}
	// The old manager gives up a field in the new version.
	if code, text := apply("v1", "one", `"selector":{"matchLabels":{"app":"x"}},`); code != 200 || field(t, text, "spec", "minReadySeconds") != nil ||
		field(t, text, "spec", "replicas") != float64(1) {
		t.Errorf("%d %s", code, text)
	}
	var managers []string
	for _, m := range field(t, r.must(200, "GET", at("v1beta2", "/d"), ""), "metadata", "managedFields").([]any) {
		entry := m.(map[string]any)
		managers = append(managers, fmt.Sprint(entry["manager"], " ", entry["apiVersion"]))
	}
	if got := strings.Join(managers, ", "); got != "one apps/v1" {
		t.Errorf("managers are %s", got)
	}
}

// Retired versions send Kubernetes' warnings.
func TestRetiredWarning(t *testing.T) {
	r := startRaw(t, kapok.Options{RetiredAPIs: true})
	for version, want := range map[string]string{
		"v1":      "",
		"v1beta2": `299 - "apps/v1beta2 Deployment is deprecated in v1.9+, unavailable in v1.16+; use apps/v1 Deployment"`,
		"v1beta1": `299 - "apps/v1beta1 Deployment is deprecated in v1.8+, unavailable in v1.16+; use apps/v1 Deployment"`,
	} {
		req, err := http.NewRequest("GET", "http://kapok"+fmt.Sprintf(deployments, version), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := r.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get("Warning"); got != want {
			t.Errorf("%s: warning is %s, want %s", version, got, want)
		}
	}
}

// Without the option, all is as in Kubernetes.
func TestRetiredAPIsAreOff(t *testing.T) {
	r := startRaw(t, kapok.Options{})
	for _, path := range []string{"/apis/apps/%s", deployments, deployments + "/x", "/openapi/v3/apis/apps/%s"} {
		// The versions are not served at all.
		if got, want := r.must(404, "GET", fmt.Sprintf(path, "v1beta1"), ""), r.must(404, "GET", fmt.Sprintf(path, "v9"), ""); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if text := r.must(400, "POST", fmt.Sprintf(deployments, "v1"), deployment("v1beta1", "d", "")); !strings.Contains(text, "does not match the expected API version") {
		t.Errorf("%s", text)
	}
	group := r.must(200, "GET", "/apis/apps", "")
	if got := len(field(t, group, "versions").([]any)); got != 1 {
		t.Errorf("%d versions of apps", got)
	}
}

// TestMovedKinds checks that a kind that moved to another group is served in both with the same
// objects, which are stored in its present group.
func TestMovedKinds(t *testing.T) {
	r := startRaw(t, kapok.Options{RetiredAPIs: true})
	const (
		before = "/apis/extensions/v1beta1/namespaces/default/deployments"
		now    = "/apis/apps/v1/namespaces/default/deployments"
	)
	body := func(name, spec string) string {
		return strings.Replace(deployment("v1beta1", name, spec), "apps/v1beta1", "extensions/v1beta1", 1)
	}
	if got := field(t, r.must(200, "GET", "/apis/extensions", ""), "preferredVersion", "groupVersion"); got != "extensions/v1beta1" {
		t.Errorf("preferred: %v", got)
	}
	listed := r.must(200, "GET", "/apis/extensions/v1beta1", "")
	for _, want := range []string{`"deployments"`, `"deployments/scale"`, `"deployments/status"`} {
		if !strings.Contains(listed, want) {
			t.Errorf("discovery has no %s: %s", want, listed)
		}
	}
	if strings.Contains(listed, `"all"`) || strings.Contains(listed, `"deploy"`) {
		t.Errorf("kubectl get all would show deployments twice: %s", listed)
	}
	if doc := r.must(200, "GET", "/openapi/v3/apis/extensions/v1beta1", ""); !strings.Contains(doc, "io.k8s.api.extensions.v1beta1.Deployment") {
		t.Errorf("OpenAPI: %.300s", doc)
	}

	// An object created in the old group has its defaults, and is read, changed and watched in the
	// new one.
	made := r.must(201, "POST", before+"?fieldManager=old", body("web", `"rollbackTo":{"revision":3},`))
	if field(t, made, "apiVersion") != "extensions/v1beta1" || field(t, made, "spec", "rollbackTo", "revision") != float64(3) {
		t.Errorf("created: %s", made)
	}
	seen := r.must(200, "GET", now+"/web", "")
	if field(t, seen, "apiVersion") != "apps/v1" || field(t, seen, "metadata", "uid") != field(t, made, "metadata", "uid") {
		t.Errorf("read in apps/v1: %s", seen)
	}
	if got := field(t, seen, "spec", "strategy", "rollingUpdate", "maxSurge"); got != float64(1) {
		t.Errorf("maxSurge is %v, want that of extensions/v1beta1", got)
	}
	r.must(200, "PATCH", now+"/web", `{"spec":{"replicas":5}}`, "Content-Type", mergePatch)
	list := r.must(200, "GET", before, "")
	if field(t, list, "apiVersion") != "extensions/v1beta1" || field(t, list, "kind") != "DeploymentList" || !strings.Contains(list, `"replicas":5`) {
		t.Errorf("list: %s", list)
	}
	if got := firstEvent(t, r, before+"?watch=true"); field(t, got, "object", "apiVersion") != "extensions/v1beta1" {
		t.Errorf("watch: %s", got)
	}
	if got := firstEvent(t, r, now+"?watch=true"); field(t, got, "object", "apiVersion") != "apps/v1" {
		t.Errorf("watch: %s", got)
	}
	scaled := r.must(200, "PATCH", before+"/web/scale", `{"spec":{"replicas":2}}`, "Content-Type", mergePatch)
	if field(t, scaled, "apiVersion") != "autoscaling/v1" || field(t, r.must(200, "GET", now+"/web", ""), "spec", "replicas") != float64(2) {
		t.Errorf("scaled: %s", scaled)
	}
	if got := r.must(200, "GET", before+"/web", "", "Accept", "application/vnd.kubernetes.protobuf"); !strings.Contains(got, "extensions/v1beta1") {
		t.Errorf("protobuf: %q", got)
	}

	// Fields that were applied in the old group are owned in the new one.
	r.must(201, "PATCH", before+"/owned?fieldManager=one", body("owned", `"replicas":3,"selector":{"matchLabels":{"app":"x"}},`), "Content-Type", applyPatch)
	if code, text := r.do("PATCH", now+"/owned?fieldManager=two", deployment("v1", "owned", `"replicas":4,"selector":{"matchLabels":{"app":"x"}},`),
		"Content-Type", applyPatch); code != 409 || !strings.Contains(text, `conflict with \"one\"`) {
		t.Errorf("%d %s", code, text)
	}

	// Messages name the group of the request.
	for path, want := range map[string]string{before: `deployments.extensions \"none\" not found`, now: `deployments.apps \"none\" not found`} {
		if got := r.must(404, "GET", path+"/none", ""); !strings.Contains(got, want) {
			t.Errorf("%s: %s", path, got)
		}
	}
	if got := r.must(422, "POST", before, body("bad", `"replicas":-1,`)); !strings.Contains(got, `Deployment.extensions \"bad\" is invalid: spec.replicas`) {
		t.Errorf("%s", got)
	}
	if got := r.must(409, "POST", before, body("web", "")); !strings.Contains(got, `deployments.extensions \"web\" already exists`) {
		t.Errorf("%s", got)
	}
	r.must(400, "POST", before, deployment("v1", "web", ""))
	r.must(404, "GET", "/apis/extensions/v1/namespaces/default/deployments", "")

	// A dependent that names its owner in the old group is deleted with it.
	uid := field(t, made, "metadata", "uid").(string)
	r.must(201, "POST", "/api/v1/namespaces/default/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"owned","ownerReferences":[
		{"apiVersion":"extensions/v1beta1","kind":"Deployment","name":"web","uid":"`+uid+`"}]}}`)
	r.must(200, "DELETE", before+"/web", "")
	r.must(404, "GET", now+"/web", "")
	r.wait("the dependent to go", func() bool {
		code, _ := r.do("GET", "/api/v1/namespaces/default/configmaps/owned", "")
		return code == 404
	})
}

// TestMovedKindsAreOff checks that without the option the group can be used by custom resources.
func TestMovedKindsAreOff(t *testing.T) {
	r := startRaw(t, kapok.Options{})
	if got, want := r.must(404, "GET", "/apis/extensions/v1beta1", ""), r.must(404, "GET", "/apis/never/v1beta1", ""); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
