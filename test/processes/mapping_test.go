//go:build linux || darwin

package processes

import (
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/node/process"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

// setImage maps an image to a program by an object.
func setImage(t *testing.T, config *rest.Config, image, program string) error {
	t.Helper()
	c, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	return c.Create(t.Context(), process.NewMapping(image, program))
}

// TestMappingObjects checks what the definition of mappings rejects, and that users with the role
// admin of a namespace cannot write them.
func TestMappingObjects(t *testing.T) {
	m := newMachine(t)
	m.eventually("the definition", "", func() (string, error) { return "", setImage(t, m.config, "nginx", "./bin/nginx") })
	for _, test := range []struct{ image, program, want string }{
		{"", "/x", "spec.image"},
		{"nginx", "", "spec.program"},
		{"file:///bin/sh", "/x", "must be the name of an image"},
		{"a b", "/x", "must be the name of an image"},
		{"nginx", "http://x", "must be a path, or begin with"},
	} {
		u := process.NewMapping("other", "/x")
		u.Object["spec"] = map[string]any{"image": test.image, "program": test.program}
		c, err := client.New(m.config, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Create(t.Context(), u); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q=%q: got %v, want %s", test.image, test.program, err, test.want)
		}
	}

	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "admins"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "jane"}},
	}
	if _, err := m.clients.RbacV1().RoleBindings("default").Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(m.config)
	config.Impersonate.UserName = "jane"
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.Key("default", "none"), &corev1.Pod{}); !apierrors.IsNotFound(err) {
		t.Fatalf("the user cannot read pods: %v", err)
	}
	if err := c.Create(t.Context(), process.NewMapping("other", "/x")); !apierrors.IsForbidden(err) {
		t.Errorf("the user creates a mapping: %v, want Forbidden", err)
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(process.MappingKind)
	u.SetName("nginx")
	if err := c.Delete(t.Context(), u); !apierrors.IsForbidden(err) {
		t.Errorf("the user deletes a mapping: %v, want Forbidden", err)
	}
}
