package server_test

import (
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kapok-dev/kapok"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// give grants a user the rules in all namespaces.
func give(t *testing.T, server *kapok.Server, user string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	admin := kubernetes.NewForConfigOrDie(server.Config()).RbacV1()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules}
	if _, err := admin.ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}
	if _, err := admin.ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// asked returns a function that sends a path unchanged, as a user: client libraries normalise
// paths.
func asked(t *testing.T, server *kapok.Server, user string) func(path string) (code int, body string) {
	config := server.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return func(path string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
}

// TestCreateByAnotherVerb checks that a user who may update and patch but not create cannot create
// an object by an update or an apply.
func TestCreateByAnotherVerb(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		server, err := kapok.Start(ctx, kapok.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		change := []string{"update", "patch"}
		give(t, server, "jane",
			rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: change},
			rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: change})
		give(t, server, "john",
			rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: append(change, "create"), ResourceNames: []string{"a"}})
		put := func(user, name string, dryRun ...string) error {
			body := `{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "` + name + `"}}`
			r := clientOf(server, user).CoordinationV1().RESTClient().Put().Namespace("default").Resource("leases").Name(name).Body([]byte(body))
			for _, value := range dryRun {
				r.Param("dryRun", value)
			}
			return r.Do(ctx).Error()
		}
		apply := func(user, resource, kind, apiVersion, name string) error {
			client := clientOf(server, user)
			by := client.CoreV1().RESTClient()
			if resource == "leases" {
				by = client.CoordinationV1().RESTClient()
			}
			return by.Patch(types.ApplyPatchType).Namespace("default").Resource(resource).Name(name).Param("fieldManager", "x").
				Body([]byte(`{"apiVersion": "` + apiVersion + `", "kind": "` + kind + `", "metadata": {"name": "` + name + `"}}`)).Do(ctx).Error()
		}
		for _, tc := range []struct {
			name string
			err  error
			want string // "" if it is allowed
		}{
			{"update", put("jane", "a"), `leases.coordination.k8s.io "a" is forbidden: User "jane" cannot create resource "leases" in API group "coordination.k8s.io" in the namespace "default"`},
			{"dry run", put("jane", "a", "All"), `User "jane" cannot create resource "leases"`},
			{"apply", apply("jane", "configmaps", "ConfigMap", "v1", "a"), `configmaps "a" is forbidden: User "jane" cannot create resource "configmaps" in API group "" in the namespace "default"`},
			{"another name", put("john", "b"), `User "john" cannot update resource "leases"`},
			{"this name", put("john", "a"), ""},
			{"apply to what is there", apply("jane", "leases", "Lease", "coordination.k8s.io/v1", "a"), ""},
		} {
			if tc.want == "" {
				if tc.err != nil {
					t.Errorf("%s: %v", tc.name, tc.err)
				}
			} else if !apierrors.IsForbidden(tc.err) || !strings.Contains(tc.err.Error(), tc.want) {
				t.Errorf("%s: got %v\nwant %s", tc.name, tc.err, tc.want)
			}
		}
	})
}

// TestSubresourcesOfNothing checks that a permission for a subresource grants no access to the
// collection by an empty object name.
func TestSubresourcesOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		server, err := kapok.Start(ctx, kapok.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		all := []string{"*"}
		give(t, server, "jane", rbacv1.PolicyRule{APIGroups: all, Resources: []string{"*/scale", "*/status", "*/log", "*/x"}, Verbs: all})
		get := asked(t, server, "jane")
		for path, want := range map[string]int{
			"/api/v1/secrets//scale":                                           404,
			"/api/v1/secrets//x":                                               404,
			"/api/v1/pods//log":                                                404,
			"/api/v1/pods//status":                                             404,
			"/api/v1/watch/pods//status":                                       404,
			"/api/v1/namespaces/default/secrets//x":                            404,
			"/api/v1/namespaces/default/pods//status":                          400,
			"/api/v1/namespaces/default/pods//status?watch=1&timeoutSeconds=1": 400,
			"/api/v1/watch/namespaces/default/pods//status":                    404,
			"/api/v1/namespaces//status":                                       400,
			"/api/v1/nodes//status":                                            400,
			"/apis/apps/v1/deployments//scale":                                 404,
			"/apis/apps/v1/namespaces/default/deployments//scale":              400,
			"/apis/apiextensions.k8s.io/v1/customresourcedefinitions//status":  400,
		} {
			if code, body := get(path); code != want {
				t.Errorf("%s: %d, want %d: %.200s", path, code, want, body)
			}
		}
	})
}

// TestOneName checks that a user who may read one secret by its name cannot read others, with any
// kind of request.
func TestOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		server, err := kapok.Start(ctx, kapok.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		give(t, server, "jane", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch"}, ResourceNames: []string{"mine"}})
		admin := kubernetes.NewForConfigOrDie(server.Config())
		for _, name := range []string{"mine", "yours"} {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"it": name}}
			if _, err := admin.CoreV1().Secrets("default").Create(ctx, secret, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		get := asked(t, server, "jane")
		const secrets, watched = "/api/v1/namespaces/default/secrets", "/api/v1/watch/namespaces/default/secrets"
		after := base64.RawURLEncoding.EncodeToString([]byte(`{"v":"meta.k8s.io/v1","rv":-1,"start":"mine\u0000"}`))
		for path, want := range map[string]int{
			secrets + "/mine":  200,
			secrets + "/yours": 403,
			secrets:            403,
			secrets + "?fieldSelector=metadata.name%3Dmine":                                     200,
			secrets + "?fieldSelector=metadata.name%3Dmine&continue=" + after:                   200,
			secrets + "?fieldSelector=metadata.name%3Dmine&watch=1&timeoutSeconds=1":            200,
			watched + "/mine?timeoutSeconds=1":                                                  200,
			secrets + "?fieldSelector=metadata.name%3Dmine&fieldSelector=metadata.name%3Dyours": 200,
			secrets + "?fieldSelector=metadata.name%3Dyours&fieldSelector=metadata.name%3Dmine": 403,
			secrets + "?fieldSelector=metadata.name%3Dmine,metadata.name%3Dyours":               200,
			secrets + "?fieldSelector=metadata.name!%3Dmine":                                    403,
			watched + "?fieldSelector=metadata.name%3Dmine&timeoutSeconds=1":                    403,
			watched + "/mine?fieldSelector=metadata.name%3Dyours&timeoutSeconds=1":              400,
			"/api/v1/secrets": 403,
			"/api/v1/secrets?fieldSelector=metadata.name%3Dmine":             200,
			"/api/v1/namespaces//secrets?fieldSelector=metadata.name%3Dmine": 200,
			secrets + "/mine/../yours":                                       403,
			secrets + "/mine%2f..%2fyours":                                   403,
			secrets + "//yours":                                              403,
		} {
			code, body := get(path)
			if code != want || strings.Contains(body, "eW91cnM=") {
				t.Errorf("%s: %d, want %d: %.200s", path, code, want, body)
			}
		}
	})
}

// TestPartsOfAStatus checks that a permission for the status of a ResourceClaim, or of a
// CertificateSigningRequest, does not include the fields that only schedulers, drivers and signers
// may write.
func TestPartsOfAStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		server, err := kapok.Start(ctx, kapok.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		group := []string{"resource.k8s.io"}
		rule := rbacv1.PolicyRule{APIGroups: group, Resources: []string{"resourceclaims/status"}, Verbs: []string{"update", "patch"}}
		give(t, server, "jane", rule)
		give(t, server, "scheduler", rule, rbacv1.PolicyRule{APIGroups: group, Resources: []string{"resourceclaims/binding"}, Verbs: []string{"patch"}})
		give(t, server, "driver", rule,
			rbacv1.PolicyRule{APIGroups: group, Resources: []string{"resourceclaims/driver"}, Verbs: []string{"arbitrary-node:patch"}, ResourceNames: []string{"d.example.com"}})
		admin := kubernetes.NewForConfigOrDie(server.Config())
		claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
			Requests: []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "c"}}},
		}}}
		if _, err := admin.ResourceV1().ResourceClaims("default").Create(ctx, claim, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		patch := func(user, status string) error {
			_, err := clientOf(server, user).ResourceV1().ResourceClaims("default").Patch(ctx, "a", types.MergePatchType,
				[]byte(`{"status": `+status+`}`), metav1.PatchOptions{}, "status")
			return err
		}
		result := func(more string) string {
			return `{"allocation": {"devices": {"results": [{"request": "r", "driver": "d.example.com", "pool": "p", "device": "x"` + more + `}]}}}`
		}
		device := func(driver string) string {
			return `{"devices": [{"driver": "` + driver + `", "pool": "p", "device": "x", "conditions": [` +
				`{"type": "Ready", "status": "True", "reason": "x", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}]}`
		}
		check := func(name string, err error, want string) {
			t.Helper()
			if want == "" && err != nil || want != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s: got %v\nwant %s", name, err, want)
			}
		}
		check("jane allocates", patch("jane", result("")),
			`status.allocation: Forbidden: changing status.allocation or status.reservedFor requires resource="resourceclaims/binding", verb="patch" permission: `+
				`resourceclaims.resource.k8s.io is forbidden: User "jane" cannot patch resource "resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope`)
		check("admin access by allocation", patch("scheduler", result(`, "adminAccess": true`)), "status.allocation.devices.results[0].adminAccess: Forbidden: admin access to devices requires")
		check("a scheduler allocates", patch("scheduler", result("")), "")
		check("jane reports devices", patch("jane", device("d.example.com")),
			`status.devices: Forbidden: changing status.devices requires resource="resourceclaims/driver", verb="[arbitrary-node:patch]" permission: `+
				`resourceclaims.resource.k8s.io "d.example.com" is forbidden: User "jane" cannot arbitrary-node:patch resource "resourceclaims/driver"`)
		check("a driver reports its devices", patch("driver", device("d.example.com")), "")
		check("jane forgets devices", patch("jane", `{"devices": null}`), "requires resource=\"resourceclaims/driver\"")
		check("jane changes nothing", patch("jane", "{}"), "")

		certificates := []string{"certificates.k8s.io"}
		answer := rbacv1.PolicyRule{APIGroups: certificates, Resources: []string{"podcertificaterequests/status"}, Verbs: []string{"patch"}}
		give(t, server, "john", answer)
		give(t, server, "signer", answer, rbacv1.PolicyRule{APIGroups: certificates, Resources: []string{"signers"}, Verbs: []string{"sign"}, ResourceNames: []string{"example.com/*"}})
		stub, err := base64.StdEncoding.DecodeString("MIHdMIGDAgEAMCExEDAOBgNVBAoMB3JlYWRlcnMxDTALBgNVBAMMBGphbmUwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAASCVO6bCTVqyl1a4dSQiexCcrXSt3PhW03po+PxBU7le/jtwkZLvZLiEH26mhODwEO5EyYvEb5Tv5x+L2uzOwLgoAAwCgYIKoZIzj0EAwIDSQAwRgIhAIldUOGQB9EEc5XEmXKoDnln6YcfJByouWjIu0n+rtujAiEAwg2hFJ7gFsyagv+zUiVoHO8q2WQsoFYaG04wQU9+Feg=")
		if err != nil {
			t.Fatal(err)
		}
		request := &certificatesv1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: certificatesv1.PodCertificateRequestSpec{
			SignerName: "example.com/signer", PodName: "a", PodUID: "u", ServiceAccountName: "default", ServiceAccountUID: "v", NodeName: "node", NodeUID: "w",
			StubPKCS10Request: stub,
		}}
		if _, err := admin.CertificatesV1().PodCertificateRequests("default").Create(ctx, request, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		deny := func(user string) error {
			_, err := clientOf(server, user).CertificatesV1().PodCertificateRequests("default").Patch(ctx, "a", types.MergePatchType,
				[]byte(`{"status": {"conditions": [{"type": "Denied", "status": "True", "reason": "x", "message": "y", "lastTransitionTime": "2000-01-01T00:00:00Z"}]}}`),
				metav1.PatchOptions{}, "status")
			return err
		}
		check("john answers for a signer", deny("john"), `spec.signerName: Forbidden: User "john" is not permitted to "sign" for signer "example.com/signer"`)
		check("a signer answers", deny("signer"), "")

		template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		template.Spec.Spec = *claim.Spec.DeepCopy()
		yes := true
		template.Spec.Spec.Devices.Requests[0].Exactly.AdminAccess = &yes
		_, err = admin.ResourceV1().ResourceClaimTemplates("default").Create(ctx, template, metav1.CreateOptions{})
		check("a template with admin access", err, "spec.devices.requests[0].adminAccess: Forbidden: admin access to devices requires")
	})
}

// TestOwnPathsNeedTheirOwnRule checks Kapok's own paths, which show stored objects, including
// Secrets. Wildcards, with which Kubernetes grants health checks and metrics, do not include them,
// and do not allow a user to grant them to others.
func TestOwnPathsNeedTheirOwnRule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		server, err := kapok.Start(ctx, kapok.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		all, get := []string{"*"}, []string{"get"}
		const snapshot = "/kapok/v1/snapshot"
		everything := []rbacv1.PolicyRule{{APIGroups: all, Resources: all, Verbs: all}, {NonResourceURLs: all, Verbs: all}}
		for user, rules := range map[string][]rbacv1.PolicyRule{
			"paths":  {{NonResourceURLs: all, Verbs: get}},
			"boss":   everything,
			"prefix": {{NonResourceURLs: []string{"/kapok/*", "/kapok/v1/*", "/kapok/v1/snapshot*"}, Verbs: get}},
			"verbs":  {{NonResourceURLs: []string{snapshot}, Verbs: all}},
			"named":  {{NonResourceURLs: []string{snapshot}, Verbs: get}},
		} {
			give(t, server, user, rules...)
			path := asked(t, server, user)
			want := map[bool]int{true: 200, false: 403}[user == "named"]
			if code, body := path(snapshot); code != want {
				t.Errorf("%s gets the snapshot: %d (%d bytes), want %d", user, code, len(body), want)
			}
			if code, body := path("/kapok/v1/doctor"); code != 403 || !strings.Contains(body, "wildcards") {
				t.Errorf("%s requests the doctor: %d %s", user, code, body)
			}
		}
		if code, _ := asked(t, server, "paths")("/metrics"); code != 200 {
			t.Errorf("the wildcard does not include the paths of Kubernetes: %d", code)
		}
		review, err := clientOf(server, "boss").AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: snapshot, Verb: "get"}},
		}, metav1.CreateOptions{})
		if err != nil || review.Status.Allowed {
			t.Errorf("in the review the wildcard includes the snapshot: %v, %v", review.Status, err)
		}
		// This user may write roles, but lacks the verb escalate.
		writes := rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, Verbs: []string{"create"}}
		give(t, server, "clerk", writes, rbacv1.PolicyRule{NonResourceURLs: all, Verbs: all})
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "more"}, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{snapshot}, Verbs: get}}}
		_, err = clientOf(server, "clerk").RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), snapshot) {
			t.Errorf("a wildcard lets a user grant the snapshot: %v", err)
		}
		// Members of system:masters are never denied.
		client, err := rest.HTTPClientFor(server.Config())
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Get(server.Config().Host + snapshot)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != 200 {
			t.Errorf("a member of system:masters gets the snapshot: %d, %v", answer.StatusCode, err)
		}
	})
}
