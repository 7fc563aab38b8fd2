package csrapproving_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/test/controllertest"

	"go.uber.org/goleak"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const controller = "certificatesigningrequest-approving-controller"

// newRequest returns a request of a kubelet for a client certificate.
func newRequest(t *testing.T, name string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:" + name, Organization: []string{"system:nodes"}},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: certificatesv1.CertificateSigningRequestSpec{
		Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
		Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature},
	}}
}

// TestRest checks that nothing is written when all requests are decided, and that a request that is
// not permitted, or whose approval the server refuses, is reviewed with growing pauses.
func TestRest(t *testing.T) {
	t.Run("approved", func(t *testing.T) {
		kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
			controllertest.Run(t, env, controller)
			csr := newRequest(t, "n1")
			env.Create(csr) // by a member of system:masters
			env.Settle()
			if env.Get(csr); len(csr.Status.Conditions) != 1 || csr.Status.Conditions[0].Reason != "AutoApproved" {
				t.Fatalf("conditions %+v", csr.Status.Conditions)
			}
			if n := controllertest.Writes(env, 24*time.Hour); n > 0 {
				t.Errorf("%d writes in a day at rest", n)
			}
		})
	})
	t.Run("refused", func(t *testing.T) {
		kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
			controllertest.RunReadOnly(t, env, controller)
			env.Create(newRequest(t, "n1"))
			if n := controllertest.Writes(env, time.Hour); n < 5 || n > 25 {
				t.Errorf("%d writes in the first hour", n)
			}
			if n := controllertest.Writes(env, 10*time.Hour); n > 40 {
				t.Errorf("%d writes in ten hours", n)
			}
		})
	})
	t.Run("not permitted", func(t *testing.T) {
		kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
			controllertest.Run(t, env, controller)
			cfg := env.User("kubelet", kapoktest.Can("create", "certificatesigningrequests.certificates.k8s.io"))
			c, err := client.New(cfg, client.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Create(t.Context(), newRequest(t, "n1")); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			if n := controllertest.Writes(env, 10*time.Hour); n < 30 || n > 40 {
				t.Errorf("%d reviews in ten hours, want one in 1,000 s", n)
			}
			for _, w := range env.Writes() {
				if strings.HasSuffix(w.Path, "/approval") {
					t.Errorf("%s %s", w.Method, w.Path)
				}
			}
		})
	})
}
