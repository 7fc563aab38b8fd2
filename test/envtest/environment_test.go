package envtest

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// start starts an environment as a suite does, and ends it with the test.
func start(t testing.TB, env *envtest.Environment) client.Client {
	t.Helper()
	env.BinaryAssetsDirectory = assets
	config, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string]string{"key": "value"}}
}

func TestEnvironment(t *testing.T) {
	env := &envtest.Environment{CRDs: []*apiextensionsv1.CustomResourceDefinition{definition()}}
	c := start(t, env)
	ctx := t.Context()

	foo := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Foo", "metadata": map[string]any{"namespace": "default", "name": "a"},
		"spec": map[string]any{"replicas": int64(1)},
	}}
	if err := c.Create(ctx, foo); err != nil {
		t.Fatal(err)
	}
	foo.Object["spec"] = map[string]any{"replicas": "many"}
	if err := c.Update(ctx, foo); !apierrors.IsInvalid(err) {
		t.Errorf("an object that its schema does not allow: %v", err)
	}

	// There are no controllers: no service account is needed, and namespaces are not finalized.
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	if err := c.Create(ctx, pod); err != nil {
		t.Errorf("a pod: %v", err)
	}
	accounts := &corev1.ServiceAccountList{}
	if err := c.List(ctx, accounts); err != nil || len(accounts.Items) != 0 {
		t.Errorf("%d service accounts, %v", len(accounts.Items), err)
	}
	itself := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"}}
	if err := c.Get(ctx, client.ObjectKeyFromObject(itself), itself); err != nil || itself.Spec.ClusterIP != "10.0.0.1" {
		t.Errorf("the service kubernetes is at %q, %v: envtest asks for 10.0.0.0/24", itself.Spec.ClusterIP, err)
	}
	gone := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "gone"}}
	if err := errors.Join(c.Create(ctx, gone), c.Delete(ctx, gone), c.Get(ctx, client.ObjectKeyFromObject(gone), gone)); err != nil {
		t.Fatal(err)
	}
	if gone.Status.Phase != corev1.NamespaceTerminating {
		t.Errorf("the namespace is %s", gone.Status.Phase)
	}

	// Users have certificates of an authority that the suite has created, and the permissions that
	// it grants.
	jane, err := env.AddUser(envtest.User{Name: "jane", Groups: []string{"readers"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	asJane, err := client.New(jane.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := asJane.Create(ctx, configMap("a")); !apierrors.IsForbidden(err) {
		t.Errorf("a user without rights writes: %v", err)
	}
	root, err := env.AddUser(envtest.User{Name: "root", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	asRoot, err := client.New(root.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := asRoot.Create(ctx, configMap("a")); err != nil {
		t.Errorf("an admin cannot write: %v", err)
	}
}

// TestRestart restarts the server on the same etcd, which keeps the objects.
func TestRestart(t *testing.T) {
	env := &envtest.Environment{}
	c := start(t, env)
	if err := c.Create(t.Context(), configMap("kept")); err != nil {
		t.Fatal(err)
	}
	server := env.ControlPlane.GetAPIServer()
	if err := errors.Join(server.Stop(), server.Start()); err != nil {
		t.Fatal(err)
	}
	admin, err := env.ControlPlane.AddUser(envtest.User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = client.New(admin.Config(), client.Options{}); err != nil {
		t.Fatal(err)
	}
	found := configMap("kept")
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(found), found); err != nil || found.Data["key"] != "value" {
		t.Errorf("after a restart: %v, %v", found.Data, err)
	}
}

// TestControllers enables the controllers of kube-controller-manager.
func TestControllers(t *testing.T) {
	env := &envtest.Environment{}
	env.ControlPlane.GetAPIServer().Configure().Append("controllers", "true")
	c := start(t, env)
	ctx := t.Context()
	gone := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "gone"}}
	if err := errors.Join(c.Create(ctx, gone), c.Delete(ctx, gone)); err != nil {
		t.Fatal(err)
	}
	await(t, "the namespace to end", func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(gone), gone)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

func await(t testing.TB, what string, condition wait.ConditionWithContextFunc) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true, condition); err != nil {
		t.Fatalf("wait for %s: %v", what, err)
	}
}

// TestFlags starts the server with flags that kube-apiserver supports, that it once supported, and
// that it never had.
func TestFlags(t *testing.T) {
	var out bytes.Buffer
	env := &envtest.Environment{}
	server := env.ControlPlane.GetAPIServer()
	server.Err = &out
	server.Configure().
		Append("runtime-config", "api/all=true").
		Append("feature-gates", "SomeGate=true").
		Append("advertise-address", "127.0.0.1").
		Append("watch-cache", "true").
		Append("enable-admission-plugins", "NodeRestriction").
		Append("enable-swagger-ui", "true").
		Append("no-such-flag", "a value")
	start(t, env)
	if err := env.Stop(); err != nil {
		t.Fatal(err)
	}
	said := out.String()
	for _, want := range []string{"--enable-swagger-ui", "--no-such-flag"} {
		if !strings.Contains(said, want) {
			t.Errorf("the log does not name %s:\n%s", want, said)
		}
	}
	for _, known := range []string{"runtime-config", "feature-gates", "watch-cache", "advertise-address"} {
		if strings.Contains(said, "--"+known) {
			t.Errorf("the log complains of %s:\n%s", known, said)
		}
	}
}

// TestRefused starts servers that must fail, and checks the errors.
func TestRefused(t *testing.T) {
	for _, tc := range []struct{ flag, value, want string }{
		{"secure-port", "many", "invalid argument"},
		{"authorization-mode", "Whatever", "Unsupported value"},
		{"token-auth-file", "/nowhere/at/all", "no such file"},
		{"disable-admission-plugins", "NoSuchPlugin", "unknown"},
	} {
		t.Run(tc.flag, func(t *testing.T) {
			var out bytes.Buffer
			env := &envtest.Environment{BinaryAssetsDirectory: assets}
			server := env.ControlPlane.GetAPIServer()
			server.Err = &out
			server.Configure().Set(tc.flag, tc.value)
			if _, err := env.Start(); err == nil {
				t.Errorf("it starts")
			}
			if err := env.Stop(); err != nil {
				t.Error(err)
			}
			if !strings.Contains(out.String(), tc.want) {
				t.Errorf("it says %q, not %q", out.String(), tc.want)
			}
		})
	}
}

func BenchmarkEnvironment(b *testing.B) {
	for b.Loop() {
		env := &envtest.Environment{BinaryAssetsDirectory: assets}
		if _, err := env.Start(); err != nil {
			b.Fatal(err)
		}
		if err := env.Stop(); err != nil {
			b.Fatal(err)
		}
	}
}

func definition() *apiextensionsv1.CustomResourceDefinition {
	schema := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"replicas": {Type: "integer"}}},
	}}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "foos.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "foos", Singular: "foo", Kind: "Foo", ListKind: "FooList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &schema},
			}},
		},
	}
}
