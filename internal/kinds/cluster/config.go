package cluster

import (
	"crypto/tls"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
)

// warnOfSecret warns of a TLS key that does not match its certificate.
func warnOfSecret(obj, _ resource.Tree) []string {
	if kind.Text(obj, "type") != string(corev1.SecretTypeTLS) {
		return nil
	}
	s := kind.Decoded[corev1.Secret](obj)
	if _, err := tls.X509KeyPair(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey]); err != nil {
		return []string{err.Error()}
	}
	return nil
}
