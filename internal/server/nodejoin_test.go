package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/authn/methods"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/certificate/csr"
)

// TestNodeJoins sends what a kubelet sends: it requests a certificate with a bootstrap token, and
// then registers and reads its pods' secrets with the certificate.
func TestNodeJoins(t *testing.T) {
	leakFree(t)
	s := start(t, Options{Listen: anyPort, DataDir: t.TempDir(), Authentication: methods.Options{BootstrapTokens: true}})
	ctx := t.Context()
	config := adminConfig(t, s)
	admin, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	bare := func() *rest.Config {
		return &rest.Config{Host: config.Host, TLSClientConfig: rest.TLSClientConfig{CAData: config.CAData, CAFile: config.CAFile}}
	}
	bearer := bare()
	bearer.BearerToken = "abcdef.0123456789abcdef"
	newcomer, err := kubernetes.NewForConfig(bearer)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newcomer.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("a token without its Secret: %v, want 401", err)
	}
	secret, err := admin.CoreV1().Secrets("kube-system").Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-abcdef"}, Type: corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node-bootstrapper"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:bootstrappers"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:one", Organization: []string{"system:nodes"}},
	}, private)
	if err != nil {
		t.Fatal(err)
	}
	name, uid, err := csr.RequestCertificateWithContext(ctx, newcomer, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), "node-csr-one",
		certificatesv1.KubeAPIServerClientKubeletSignerName, nil, []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}, private)
	if err != nil {
		t.Fatal(err)
	}
	request, err := admin.CertificatesV1().CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if request.Spec.Username != "system:bootstrap:abcdef" {
		t.Errorf("the request is from %q, want system:bootstrap:abcdef", request.Spec.Username)
	}
	approve(t, admin, request)
	certificate, err := csr.WaitForCertificate(ctx, newcomer, name, uid)
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.CoreV1().Secrets("kube-system").Delete(ctx, secret.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := newcomer.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("a token whose Secret is deleted: %v, want 401", err)
	}

	key, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	own := bare()
	own.CertData, own.KeyData = certificate, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key})
	node, err := kubernetes.NewForConfig(own)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := node.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, metav1.CreateOptions{}); err != nil {
		t.Errorf("a node registers: %v", err)
	}
	if _, err := node.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "two"}}, metav1.CreateOptions{}); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `node "one" is not allowed to modify node "two"`) {
		t.Errorf("a node registers another one: %v, want 403", err)
	}
	if _, err := admin.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "used"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := node.CoreV1().Secrets("default").Get(ctx, "used", metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a secret that no pod uses: %v, want 403", err)
	}
	off := false
	if _, err := admin.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.PodSpec{NodeName: "one", AutomountServiceAccountToken: &off, Containers: []corev1.Container{{
			Name: "c", Image: "i", EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "used"}}}},
		}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := node.CoreV1().Secrets("default").Get(ctx, "used", metav1.GetOptions{}); err != nil {
		t.Errorf("the secret of a pod of the node, with the next request: %v", err)
	}
}
