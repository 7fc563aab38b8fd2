package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/internal/history"
	"github.com/kapok-dev/kapok/internal/journal"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// historyServer is a server that keeps the revisions of config maps.
type historyServer struct {
	*Server
	t   *testing.T
	dir string
	kubernetes.Interface
}

func newHistoryServer(t *testing.T) *historyServer {
	h := &historyServer{t: t, dir: t.TempDir()}
	h.start()
	return h
}

func (h *historyServer) start() {
	h.t.Helper()
	var err error
	h.Server, err = Start(h.t.Context(), Options{DataDir: h.dir, HistoryAPI: true, Archive: journal.Archive{
		Rules: []journal.ArchiveRule{{Resource: corev1.Resource("configmaps"), Keep: time.Hour}},
	}})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { h.Stop() })
	if h.Interface, err = kubernetes.NewForConfig(h.Config()); err != nil {
		h.t.Fatal(err)
	}
}

// as returns a client of another user.
func (h *historyServer) as(user string, groups ...string) rest.Interface {
	config := rest.CopyConfig(h.Config())
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return kubernetes.NewForConfigOrDie(config).CoreV1().RESTClient()
}

func (h *historyServer) admin() rest.Interface { return h.CoreV1().RESTClient() }

// revisions lists the revisions of an object as CHANGE[MANAGERS][FIELDS], oldest first.
func (h *historyServer) revisions(of, name string) (all []string, list history.List) {
	h.t.Helper()
	if code := h.get(h.admin(), path("namespaces/default/revisions", of, name), &list); code != http.StatusOK {
		h.t.Fatalf("%d", code)
	}
	for _, r := range slices.Backward(list.Items) {
		all = append(all, fmt.Sprintf("%s%q%q", r.Change, r.Managers, r.Fields))
	}
	return all, list
}

func path(below, of, name string) string {
	return below + "?fieldSelector=" + url.QueryEscape("regarding.resource="+of+",regarding.name="+name)
}

// get reads a path below the group version.
func (h *historyServer) get(c rest.Interface, below string, into any) (code int) {
	h.t.Helper()
	below, query, _ := strings.Cut(below, "?")
	request := c.Get().AbsPath("/apis/history.kapok.dev/v1/"+below).SetHeader("Accept", "application/json")
	values, err := url.ParseQuery(query)
	if err != nil {
		h.t.Fatal(err)
	}
	for key, all := range values {
		request.Param(key, all[0])
	}
	data, _ := request.Do(h.t.Context()).StatusCode(&code).Raw() // the code tells whether it failed
	if into == nil || data == nil {
		return code
	}
	if err := json.Unmarshal(data, into); err != nil {
		h.t.Fatalf("%s: %v\n%s", below, err, data)
	}
	return code
}

// change updates a config map, and returns its resourceVersion.
func (h *historyServer) change(name, value string) string {
	h.t.Helper()
	cms := h.CoreV1().ConfigMaps("default")
	cm, err := cms.Get(h.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		cm, err = cms.Create(h.t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"k": value}}, metav1.CreateOptions{FieldManager: "maker"})
	} else {
		cm.Data["k"] = value
		cm, err = cms.Update(h.t.Context(), cm, metav1.UpdateOptions{FieldManager: "changer"})
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return cm.ResourceVersion
}

// TestRevisions: the revisions of an object can be read from the history and the archive, as they
// were, also after the object is gone and after a restart.
func TestRevisions(t *testing.T) {
	h := newHistoryServer(t)
	first := h.change("a", "1")
	h.change("b", "1")
	second := h.change("a", "2")
	want := []string{`Created["maker"][]`, `Updated["changer"]["data.k"]`}
	check := func(when string) history.List {
		t.Helper()
		got, list := h.revisions("configmaps", "a")
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
		return list
	}
	check("in the history")
	if err := h.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	list := check("in the archive")
	oldest := list.Items[len(list.Items)-1]
	if oldest.Name != "configmaps:a:"+first || oldest.Namespace != "default" || oldest.Kind != "Revision" || oldest.CreationTimestamp.IsZero() {
		t.Errorf("%+v", oldest.ObjectMeta)
	}
	if r := oldest.Regarding; r.APIVersion != "v1" || r.Kind != "ConfigMap" || r.Name != "a" || r.Namespace != "default" || r.ResourceVersion != first || r.UID == "" {
		t.Errorf("%+v", r)
	}
	if got := fmt.Sprintln(oldest.Object["data"], oldest.Object["kind"], oldest.Object["metadata"].(map[string]any)["resourceVersion"]); got != "map[k:1] ConfigMap "+first+"\n" {
		t.Errorf("the object is %s", got)
	}
	var one history.Revision
	if code := h.get(h.admin(), "namespaces/default/revisions/configmaps:a:"+first, &one); code != http.StatusOK || one.Name != oldest.Name || one.Change != history.Created || one.Object == nil {
		t.Errorf("%d %+v", code, one)
	}
	if code := h.get(h.admin(), "namespaces/default/revisions/configmaps:a:"+second, &one); code != http.StatusOK || one.Change != history.Updated || !slices.Equal(one.Fields, []string{"data.k"}) {
		t.Errorf("%d %+v", code, one)
	}

	if err := h.CoreV1().ConfigMaps("default").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want = append(want, "Deleted[][]")
	if list := check("deleted"); list.Items[0].Object != nil || list.Items[0].Regarding.UID != oldest.Regarding.UID {
		t.Errorf("%+v", list.Items[0])
	}
	if err := h.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("deleted, in the archive")
	h.change("a", "3")
	want = append(want, `Created["maker"][]`)
	check("created again")
	if err := h.Stop(); err != nil {
		t.Fatal(err)
	}
	h.start()
	check("after a restart")

	var page history.List
	var names []string
	for token := ""; ; token = page.Continue {
		page = history.List{}
		if code := h.get(h.admin(), path("namespaces/default/revisions", "configmaps", "a")+"&limit=1&continue="+token, &page); code != http.StatusOK || len(page.Items) != 1 {
			t.Fatalf("%d %+v", code, page)
		}
		names = append(names, fmt.Sprint(page.Items[0].Change))
		if page.Continue == "" {
			break
		}
	}
	if got := strings.Join(names, " "); got != "Created Deleted Updated Created" {
		t.Errorf("in pages: %s", got)
	}

	if all, _ := h.revisions("configmaps", "none"); len(all) > 0 {
		t.Errorf("of an object that never was: %q", all)
	}
}

// TestRevisionsArePermitted: a user cannot read the past of an object that he may not get.
func TestRevisionsArePermitted(t *testing.T) {
	h := newHistoryServer(t)
	rev := h.change("a", "1")
	h.change("b", "1")
	if _, err := h.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	grant := func(user string, rules ...rbacv1.PolicyRule) {
		t.Helper()
		if _, err := h.RbacV1().Roles("default").Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := h.RbacV1().RoleBindings("default").Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	revisions := rbacv1.PolicyRule{APIGroups: []string{history.GroupVersion.Group}, Resources: []string{history.Revisions}, Verbs: []string{"get", "list"}}
	a := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"a"}, Verbs: []string{"get"}}
	grant("both", revisions, a)
	grant("past", revisions)
	grant("present", a)
	for _, test := range []struct {
		user, below string
		want        int
	}{
		{"both", path("namespaces/default/revisions", "configmaps", "a"), http.StatusOK},
		{"both", "namespaces/default/revisions/configmaps:a:" + rev, http.StatusOK},
		{"both", path("namespaces/default/revisions", "configmaps", "b"), http.StatusForbidden},
		{"both", path("namespaces/default/revisions", "secrets", "a"), http.StatusForbidden},
		{"both", path("namespaces/kube-system/revisions", "configmaps", "a"), http.StatusForbidden},
		{"both", path("clusterrevisions", "namespaces", "default"), http.StatusForbidden},
		{"past", path("namespaces/default/revisions", "configmaps", "a"), http.StatusForbidden},
		{"past", "namespaces/default/revisions/configmaps:a:" + rev, http.StatusForbidden},
		{"present", path("namespaces/default/revisions", "configmaps", "a"), http.StatusForbidden},
		{"nobody", path("namespaces/default/revisions", "configmaps", "a"), http.StatusForbidden},
	} {
		if code := h.get(h.as(test.user), test.below, nil); code != test.want {
			t.Errorf("%s %s: %d, want %d", test.user, test.below, code, test.want)
		}
	}
	if code := h.get(h.admin(), path("clusterrevisions", "namespaces", "default"), nil); code != http.StatusOK {
		t.Errorf("the admin: %d", code)
	}
}

// TestRevisionsBadRequests: what is no request for revisions is an error that says why.
func TestRevisionsBadRequests(t *testing.T) {
	h := newHistoryServer(t)
	rev := h.change("a", "1")
	selected := path("namespaces/default/revisions", "configmaps", "a")
	for below, want := range map[string]string{
		"namespaces/default/revisions": "400 a list has the revisions of one object",
		"revisions":                    "400 name its namespace",
		"namespaces/default/revisions?fieldSelector=regarding.name%21%3Da":              "400 name it by the field selector",
		"namespaces/default/revisions?fieldSelector=metadata.name%3Da":                  "400 name it by the field selector",
		path("namespaces/default/revisions", "nothing", "a"):                            `400 no objects of the resource "nothing"`,
		path("namespaces/default/revisions", "tokenreviews.authentication.k8s.io", "a"): `400 no objects of the resource`,
		path("namespaces/default/revisions", "nodes", "a"):                              "400 the revisions of nodes are clusterrevisions",
		path("clusterrevisions", "configmaps", "a"):                                     "400 the revisions of configmaps are revisions",
		path("namespaces/default/revisions", "configmaps", "a/b"):                       "400 Name parameter invalid",
		selected + "&limit=x":                                          "400 limit=x",
		selected + "&limit=-1":                                         "400 limit=-1",
		selected + "&continue=x":                                       "400 continue=x",
		selected + "&labelSelector=a":                                  "400 revisions have no labels",
		selected + "&watch=1":                                          "405",
		selected + "%2Cregarding.apiVersion%3Dapps%2Fv1":               `400 configmaps are not served in "apps/v1"`,
		"namespaces/default/revisions/a":                               "400 is not the name of a revision",
		"namespaces/default/revisions/configmaps:a:1":                  "404 not found",
		"namespaces/default/revisions/configmaps:b:" + rev:             "404 not found",
		"namespaces/default/revisions/configmaps:a:" + rev + "/status": "404",
		"namespaces/default/others":                                    "404",
		"clusterrevisions/configmaps:a:" + rev:                         "400 the revisions of configmaps are revisions",
	} {
		var status metav1.Status
		code := h.get(h.admin(), below, &status)
		wantCode, wantText, _ := strings.Cut(want, " ")
		if fmt.Sprint(code) != wantCode || !strings.Contains(status.Message, wantText) {
			t.Errorf("%s: %d %s, want %s", below, code, status.Message, want)
		}
	}
	for _, verb := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		code := 0
		h.admin().Verb(verb).AbsPath("/apis/history.kapok.dev/v1/namespaces/default/revisions/configmaps:a:" + rev).Body([]byte(`{}`)).Do(t.Context()).StatusCode(&code)
		if code != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", verb, code)
		}
	}
	if _, list := h.revisions("configmaps", "a"); len(list.Items) != 1 {
		t.Errorf("%d revisions", len(list.Items))
	}
}
