package csrcleaner_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/test/controllertest"

	"go.uber.org/goleak"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newRequest(t *testing.T, name string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: certificatesv1.CertificateSigningRequestSpec{
		Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		SignerName: "example.com/signer", Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
	}}
}

// TestClean checks that requests go when their time has come, not before, and also those that are
// there when the controller starts.
func TestClean(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		pending, denied := newRequest(t, "pending"), newRequest(t, "denied")
		env.Create(pending)
		time.Sleep(time.Hour)
		controllertest.Run(t, env, "certificatesigningrequest-cleaner-controller")
		env.Create(denied)
		approval := client.RawPatch(types.MergePatchType, []byte(`{"status":{"conditions":[{"type":"Denied","status":"True","reason":"Hand"}]}}`))
		if err := env.Client().SubResource("approval").Patch(t.Context(), denied, approval); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			wait            time.Duration
			pending, denied bool
		}{
			{59 * time.Minute, true, true},
			{2 * time.Minute, true, false},
			{21*time.Hour + 58*time.Minute, true, false},
			{2 * time.Minute, false, false},
		} {
			time.Sleep(step.wait)
			if a, b := env.Exists(pending), env.Exists(denied); a != step.pending || b != step.denied {
				t.Errorf("%v later: pending exists: %t, denied exists: %t", step.wait, a, b)
			}
		}
		if n := controllertest.Writes(env, 48*time.Hour); n > 0 {
			t.Errorf("%d writes at rest", n)
		}
	})
}

// TestRefused counts the attempts to delete a request that the server refuses.
func TestRefused(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		controllertest.RunReadOnly(t, env, "csrcleaner")
		env.Create(newRequest(t, "pending"))
		if n := controllertest.Writes(env, 24*time.Hour-time.Minute); n > 0 {
			t.Errorf("%d writes in the first day", n)
		}
		if n := controllertest.Writes(env, 10*time.Hour); n < 30 || n > 60 {
			t.Errorf("%d writes in ten hours, want a backoff of up to 1,000 s", n)
		}
	})
}
