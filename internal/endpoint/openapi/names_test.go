package openapi

import "testing"

func TestNames(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{operationID("read", "", "v1", "NamespacedPod"), "readCoreV1NamespacedPod"},
		{operationID("list", "apps", "v1", "DeploymentForAllNamespaces"), "listAppsV1DeploymentForAllNamespaces"},
		{operationID("create", "rbac.authorization.k8s.io", "v1", "ClusterRole"), "createRbacAuthorizationV1ClusterRole"},
		{operationID("patch", "cnat.example-shop.com", "v1alpha1", "At"), "patchCnatExampleShopComV1alpha1At"},
		{tag("", "v1"), "core_v1"},
		{tag("rbac.authorization.k8s.io", "v1"), "rbacAuthorization_v1"},
		{tag("cnat.example-shop.com", "v1"), "cnatExampleShopCom_v1"},
		{withArticle("Pod"), "a Pod"},
		{withArticle("Event"), "an Event"},
		{withArticle("Endpoints"), "Endpoints"},
		{withArticle("IngressClass"), "an IngressClass"},
		{withArticle(""), ""},
		{title("status"), "Status"},
		{title("GET"), "Get"},
		{title(""), ""},
		{(&Resource{Group: "a.b.c", Version: "v1", Custom: &Custom{}}).definition("Kind"), "c.b.a.v1.Kind"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
