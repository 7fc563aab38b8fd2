package builtin

import (
	"crypto/tls"

	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
)

// warnOfSecret says when the key of a certificate does not fit.
func warnOfSecret(obj, _ resource.Tree) []string {
	if text(obj, "type") != string(corev1.SecretTypeTLS) {
		return nil
	}
	s := decoded[corev1.Secret](obj)
	if _, err := tls.X509KeyPair(s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey]); err != nil {
		return []string{err.Error()}
	}
	return nil
}
