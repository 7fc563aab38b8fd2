package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
)

// csrOf returns a new key and a request for a certificate of the given subject, both in PEM.
func csrOf(t *testing.T, name pkix.Name) (key, request []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	request, err = x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: name, DNSNames: []string{"alice.example.com"}}, private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request})
}

// answered waits until a request has a certificate or a condition with the reason of its failure.
func answered(t *testing.T, client kubernetes.Interface, name string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w, err := client.CertificatesV1().CertificateSigningRequests().Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		csr, ok := e.Object.(*certificatesv1.CertificateSigningRequest)
		if ok && (len(csr.Status.Certificate) > 0 || slices.ContainsFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
			return c.Type == certificatesv1.CertificateFailed
		})) {
			return csr
		}
	}
	t.Fatalf("request %s has neither a certificate nor a failure", name)
	return nil
}

func approve(t *testing.T, client kubernetes.Interface, csr *certificatesv1.CertificateSigningRequest) {
	t.Helper()
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test",
	})
	if _, err := client.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), csr.Name, csr, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestCertificateOfUser checks that a user can authenticate with a certificate that was requested
// and approved.
func TestCertificateOfUser(t *testing.T) {
	leakFree(t)
	s := start(t, Options{Listen: anyPort, DataDir: t.TempDir()})
	config := adminConfig(t, s)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	asker := rest.CopyConfig(config)
	asker.Impersonate = rest.ImpersonationConfig{
		UserName: "carol", UID: "c-1", Groups: []string{"system:masters"}, Extra: map[string][]string{"acme.com/k": {"v"}},
	}
	carol, err := kubernetes.NewForConfig(asker)
	if err != nil {
		t.Fatal(err)
	}
	request := func(name, signer string, pemRequest []byte, usages ...certificatesv1.KeyUsage) *certificatesv1.CertificateSigningRequest {
		t.Helper()
		csr, err := carol.CertificatesV1().CertificateSigningRequests().Create(t.Context(), &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Request: pemRequest, SignerName: signer, Usages: usages, ExpirationSeconds: ptr.To[int32](3600),
				Username: "another-user", Groups: []string{"x"},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return csr
	}
	key, asked := csrOf(t, pkix.Name{CommonName: "alice", Organization: []string{"dev"}})

	csr := request("alice", certificatesv1.KubeAPIServerClientSignerName, asked, certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature)
	if spec := csr.Spec; spec.Username != "carol" || spec.UID != "c-1" || !slices.Equal(spec.Groups, []string{"system:masters", "system:authenticated"}) ||
		!slices.Equal(spec.Extra["acme.com/k"], []string{"v"}) {
		t.Errorf("the requester is %s, %s, %v, %v", spec.Username, spec.UID, spec.Groups, spec.Extra)
	}
	before := time.Now()
	approve(t, client, csr)
	csr = answered(t, client, "alice")
	block, rest1 := pem.Decode(csr.Status.Certificate)
	if block == nil || len(rest1) > 0 {
		t.Fatalf("certificate %s, conditions %v", csr.Status.Certificate, csr.Status.Conditions)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if cert.IsCA || cert.KeyUsage != x509.KeyUsageDigitalSignature || !slices.Equal(cert.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}) ||
		!slices.Equal(cert.DNSNames, []string{"alice.example.com"}) || cert.SerialNumber.Sign() <= 0 {
		t.Errorf("the certificate has CA %t, usages %v %v, DNS names %v, serial number %v", cert.IsCA, cert.KeyUsage, cert.ExtKeyUsage, cert.DNSNames, cert.SerialNumber)
	}
	if end := cert.NotAfter; end.Before(before.Add(3595*time.Second)) || end.After(time.Now().Add(time.Hour)) {
		t.Errorf("the certificate is valid until %v", end)
	}
	if cert.NotBefore.After(before.Add(-4 * time.Minute)) {
		t.Errorf("the certificate is valid from %v", cert.NotBefore)
	}

	login := rest.AnonymousClientConfig(config)
	login.CertData, login.KeyData = csr.Status.Certificate, key
	alice, err := kubernetes.NewForConfig(login)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := alice.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `User "alice" cannot list`) {
		t.Errorf("with the certificate: %v", err)
	}

	t.Run("usages", func(t *testing.T) {
		csr := request("server", certificatesv1.KubeAPIServerClientSignerName, asked, certificatesv1.UsageServerAuth)
		approve(t, client, csr)
		csr = answered(t, client, "server")
		if c := csr.Status.Conditions[1]; len(csr.Status.Certificate) > 0 || c.Reason != "SignerValidationFailure" || c.Message != "invalid usage for client certificate: server auth" || c.Status != "True" {
			t.Errorf("got %+v", csr.Status)
		}
	})
	t.Run("kubelet", func(t *testing.T) {
		_, asked := csrOf(t, pkix.Name{CommonName: "alice"})
		csr := request("kubelet", certificatesv1.KubeAPIServerClientKubeletSignerName, asked, certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature)
		approve(t, client, csr)
		csr = answered(t, client, "kubelet")
		if c := csr.Status.Conditions[1]; c.Message != "subject organization is not system:nodes" {
			t.Errorf("got %+v", csr.Status)
		}
	})
	t.Run("denied, foreign and pending ones stay", func(t *testing.T) {
		denied := request("denied", certificatesv1.KubeAPIServerClientSignerName, asked, certificatesv1.UsageClientAuth)
		denied.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateDenied, Status: "True", Reason: "Test"}}
		if _, err := client.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), "denied", denied, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		approve(t, client, request("foreign", "example.com/signer", asked, certificatesv1.UsageClientAuth))
		request("pending", certificatesv1.KubeAPIServerClientSignerName, asked, certificatesv1.UsageClientAuth)
		approve(t, client, request("last", certificatesv1.KubeAPIServerClientSignerName, asked, certificatesv1.UsageClientAuth))
		answered(t, client, "last")
		for _, name := range []string{"denied", "foreign", "pending"} {
			csr, err := client.CertificatesV1().CertificateSigningRequests().Get(t.Context(), name, metav1.GetOptions{})
			if err != nil || len(csr.Status.Certificate) > 0 || len(csr.Status.Conditions) > 1 {
				t.Errorf("%s: %v %+v", name, err, csr.Status)
			}
		}
	})
}

// TestNoSignerWithoutSocket checks that a server without a socket signs no certificates: no client
// could present one.
func TestNoSignerWithoutSocket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, Options{})
		client, err := kubernetes.NewForConfig(s.Config())
		if err != nil {
			t.Fatal(err)
		}
		_, asked := csrOf(t, pkix.Name{CommonName: "alice"})
		csr, err := client.CertificatesV1().CertificateSigningRequests().Create(t.Context(), &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: "alice"},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Request: asked, SignerName: certificatesv1.KubeAPIServerClientSignerName, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		approve(t, client, csr)
		time.Sleep(time.Hour)
		csr, err = client.CertificatesV1().CertificateSigningRequests().Get(t.Context(), "alice", metav1.GetOptions{})
		if err != nil || len(csr.Status.Certificate) > 0 || len(csr.Status.Conditions) != 1 {
			t.Errorf("%v, %+v", err, csr.Status)
		}
	})
}
