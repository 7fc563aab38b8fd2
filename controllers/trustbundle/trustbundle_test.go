package trustbundle_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/controllers/trustbundle"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/manager"
	"github.com/kapok-dev/kapok/test/controllertest"

	"go.uber.org/goleak"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	signer = "kubernetes.io/kube-apiserver-serving"
	// authority is a certificate.
	authority = `-----BEGIN CERTIFICATE-----
MIIBcTCCARegAwIBAgIUbKRP5METCSJgwa1Qs5rr/og9xtcwCgYIKoZIzj0EAwIw
DTELMAkGA1UEAwwCY2EwIBcNMjYxMTI2MTczMzE2WhgPMjEyNjExMDIxNzMzMTZa
MA0xCzAJBgNVBAMMAmNhMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEk9+oaIh7
5DzLP7c89fqhtBdk+eVohDyh3u/Hkw3I6BuOrceSQnM0/pvYBBwFs2qQWBzIQQ2u
qHWDuPefLrzbmKNTMFEwHQYDVR0OBBYEFN4fT3WjfO2NPoj9yid1kVKTdQQ+MB8G
A1UdIwQYMBaAFN4fT3WjfO2NPoj9yid1kVKTdQQ+MA8GA1UdEwEB/wQFMAMBAf8w
CgYIKoZIzj0EAwIDSAAwRQIgQE1G9jauoghUpuGWEqP8gUPYYWwhmW610E0VrQFM
lDwCIQDg5R6VUluxx2MZWRZqfIf1RGLqeOCKHGkDKM30LhpeOQ==
-----END CERTIFICATE-----
`
)

func bundles(t *testing.T, env *kapoktest.Env) (names []string) {
	t.Helper()
	var list certificatesv1.ClusterTrustBundleList
	if err := env.Client().List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for _, b := range list.Items {
		names = append(names, b.Name)
	}
	return names
}

func newBundle(name, of string) *certificatesv1.ClusterTrustBundle {
	return &certificatesv1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       certificatesv1.ClusterTrustBundleSpec{SignerName: of, TrustBundle: authority},
	}
}

// TestPublish checks that there is one bundle of the signer, whatever users do with bundles, and
// that bundles of other signers stay.
func TestPublish(t *testing.T) {
	for _, from := range []string{"options", "config map"} {
		t.Run(from, func(t *testing.T) {
			kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
				o := trustbundle.Options{CA: []byte(authority)}
				if from == "config map" {
					o.CA = nil
				}
				m, err := manager.New(env.Config(), manager.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if err := o.Add(m); err != nil {
					t.Fatal(err)
				}
				env.Go(m.Start)
				if from == "config map" {
					time.Sleep(3 * time.Second) // a server publishes it when it has started
					env.Create(&corev1.ConfigMap{
						ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "kube-root-ca.crt"}, Data: map[string]string{"ca.crt": authority},
					})
				}
				other := newBundle("example.com:signer:a", "example.com/signer")
				env.Create(other, newBundle("kubernetes.io:kube-apiserver-serving:old", signer))
				env.Settle()
				names := bundles(t, env)
				if len(names) != 2 || names[0] != other.Name || !strings.HasPrefix(names[1], "kubernetes.io:kube-apiserver-serving:") || strings.HasSuffix(names[1], ":old") {
					t.Fatalf("bundles %q", names)
				}
				ours := newBundle(names[1], signer)
				env.Get(ours)
				if ours.Spec.TrustBundle != authority {
					t.Errorf("the bundle has %q", ours.Spec.TrustBundle)
				}
				env.Delete(ours)
				env.Settle()
				if again := bundles(t, env); len(again) != 2 || again[1] != names[1] {
					t.Errorf("bundles %q after a deletion, want %q", again, names)
				}
				before := len(env.Writes())
				time.Sleep(24 * time.Hour)
				if n := len(env.Writes()) - before; n > 0 {
					t.Errorf("%d writes at rest", n)
				}
			})
		})
	}
}

// TestNoAuthority checks that the controller does nothing without an authority.
func TestNoAuthority(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.Run(t, env, "kube-apiserver-serving-clustertrustbundle-publisher-controller")
		time.Sleep(time.Hour)
		if names := bundles(t, env); len(names) > 0 {
			t.Errorf("bundles %q", names)
		}
		before := len(env.Requests())
		time.Sleep(time.Minute)
		for _, r := range env.Requests()[before:] {
			if strings.Contains(r.Path, "configmaps") {
				t.Errorf("%s %s after an hour", r.Method, r.Path)
			}
		}
	})
}
