package defaults

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// What defaults are is compared with Kubernetes in test/convert. Here is what [Fill] promises besides.

func TestFillTwice(t *testing.T) {
	pods := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Image: "a"}}, Volumes: []corev1.Volume{{Name: "v"}}},
	}
	for _, obj := range []runtime.Object{
		&extensionsv1beta1.Deployment{Spec: extensionsv1beta1.DeploymentSpec{Template: pods}},
		&extensionsv1beta1.DaemonSetList{Items: []extensionsv1beta1.DaemonSet{{Spec: extensionsv1beta1.DaemonSetSpec{Template: pods}}}},
		&appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Template: pods, VolumeClaimTemplates: make([]corev1.PersistentVolumeClaim, 1)}},
		&autoscalingv2.HorizontalPodAutoscaler{Spec: autoscalingv2.HorizontalPodAutoscalerSpec{Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{}}},
		&corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, SessionAffinity: corev1.ServiceAffinityClientIP, Ports: []corev1.ServicePort{{Port: 1}}}},
		&corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer}}}},
	} {
		before := obj.DeepCopyObject()
		Fill(obj)
		once := obj.DeepCopyObject()
		if cmp.Equal(before, once) {
			t.Errorf("%T: nothing is filled in", obj)
		}
		Fill(obj)
		if diff := cmp.Diff(once, obj); diff != "" {
			t.Errorf("%T: the second time changes it:\n%s", obj, diff)
		}
	}
}

// The labels that stand in for others are copies.
func TestFillSharesNothing(t *testing.T) {
	d := &extensionsv1beta1.Deployment{}
	d.Spec.Template.Labels = map[string]string{"a": "b"}
	Fill(d)
	d.Labels["a"], d.Spec.Selector.MatchLabels["a"] = "changed", "changed, too"
	if got := d.Spec.Template.Labels["a"]; got != "b" {
		t.Errorf("the template's label is %q", got)
	}
}

func TestFillTypesWithin(t *testing.T) {
	type tree struct {
		Ports []corev1.EndpointPort
		Below *tree
	}
	obj := &tree{Below: &tree{Ports: make([]corev1.EndpointPort, 1)}}
	Fill(obj)
	if got := obj.Below.Ports[0].Protocol; got != corev1.ProtocolTCP {
		t.Errorf("protocol is %q", got)
	}
	type lonely struct{ Next *lonely }
	Fill(&lonely{Next: &lonely{}}) // ends
}

// Requests of kubelets are known by what they ask for.
func TestSigner(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	node := pkix.Name{CommonName: "system:node:n", Organization: []string{"system:nodes"}}
	client := []certificatesv1beta1.KeyUsage{"digital signature", "client auth"}
	server := []certificatesv1beta1.KeyUsage{"server auth", "key encipherment", "digital signature"}
	for _, test := range []struct {
		name    string
		request *x509.CertificateRequest
		usages  []certificatesv1beta1.KeyUsage
		want    string
	}{
		{"client", &x509.CertificateRequest{Subject: node}, client, certificatesv1beta1.KubeAPIServerClientKubeletSignerName},
		{"client with a name", &x509.CertificateRequest{Subject: node, DNSNames: []string{"n"}}, client, certificatesv1beta1.LegacyUnknownSignerName},
		{"server", &x509.CertificateRequest{Subject: node, IPAddresses: []net.IP{{1, 2, 3, 4}}}, server, certificatesv1beta1.KubeletServingSignerName},
		{"server without a name", &x509.CertificateRequest{Subject: node}, server, certificatesv1beta1.LegacyUnknownSignerName},
		{"mail", &x509.CertificateRequest{Subject: node, EmailAddresses: []string{"a@b"}}, client, certificatesv1beta1.LegacyUnknownSignerName},
		{"usages are missing", &x509.CertificateRequest{Subject: node}, nil, certificatesv1beta1.LegacyUnknownSignerName},
		{"one usage more", &x509.CertificateRequest{Subject: node}, append(server, "client auth"), certificatesv1beta1.LegacyUnknownSignerName},
		{"somebody else", &x509.CertificateRequest{Subject: pkix.Name{CommonName: "jane"}}, client, certificatesv1beta1.LegacyUnknownSignerName},
		{"no request", nil, client, certificatesv1beta1.LegacyUnknownSignerName},
	} {
		csr := &certificatesv1beta1.CertificateSigningRequest{Spec: certificatesv1beta1.CertificateSigningRequestSpec{Usages: test.usages}}
		if test.request != nil {
			der, err := x509.CreateCertificateRequest(rand.Reader, test.request, key)
			if err != nil {
				t.Fatal(err)
			}
			csr.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
		}
		Fill(csr)
		if got := *csr.Spec.SignerName; got != test.want {
			t.Errorf("%s: signer is %s, want %s", test.name, got, test.want)
		}
	}
}
