package signer

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// The defaults of Kubernetes' controllers, see
// k8s.io/kubernetes/pkg/controller/certificates/signer.
const (
	longest  = 365 * 24 * time.Hour // --cluster-signing-duration
	shortest = 10 * time.Minute
	backdate = 5 * time.Minute
	// briefly is the lifetime up to which a certificate has its full duration. Longer ones end
	// earlier, by as much as they begin earlier.
	briefly = 8 * time.Hour
)

// rules has the check of requests for each signer.
var rules = map[string]func(*x509.CertificateRequest, []certificatesv1.KeyUsage) error{
	certificatesv1.KubeAPIServerClientSignerName:        checkClient,
	certificatesv1.KubeAPIServerClientKubeletSignerName: checkKubelet,
	certificatesv1.KubeletServingSignerName:             checkKubeletServing,
}

func checkClient(_ *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	for _, u := range usages {
		switch u {
		case certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth:
		default:
			return fmt.Errorf("invalid usage for client certificate: %s", u)
		}
	}
	if !slices.Contains(usages, certificatesv1.UsageClientAuth) {
		return fmt.Errorf("missing required usage for client certificate: %s", certificatesv1.UsageClientAuth)
	}
	return nil
}

func checkKubelet(r *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	switch {
	case !slices.Equal(r.Subject.Organization, []string{"system:nodes"}):
		return errors.New("subject organization is not system:nodes")
	case len(r.DNSNames) > 0:
		return errors.New("DNS subjectAltNames are not allowed")
	case len(r.EmailAddresses) > 0:
		//lint:ignore ST1005 Kubernetes' words
		return errors.New("Email subjectAltNames are not allowed")
	case len(r.IPAddresses) > 0:
		return errors.New("IP subjectAltNames are not allowed")
	case len(r.URIs) > 0:
		return errors.New("URI subjectAltNames are not allowed")
	case !strings.HasPrefix(r.Subject.CommonName, "system:node:"):
		//lint:ignore ST1005 Kubernetes' words
		return errors.New("subject common name does not begin with system:node:")
	}
	return exactly(usages, certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment)
}

// checkKubeletServing does not check that the names are those of the node: the user who approves
// the request does.
func checkKubeletServing(r *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	switch {
	case !slices.Equal(r.Subject.Organization, []string{"system:nodes"}):
		return errors.New("subject organization is not system:nodes")
	case len(r.DNSNames) == 0 && len(r.IPAddresses) == 0:
		return errors.New("DNS or IP subjectAltName is required")
	case len(r.EmailAddresses) > 0:
		//lint:ignore ST1005 Kubernetes' words
		return errors.New("Email subjectAltNames are not allowed")
	case len(r.URIs) > 0:
		return errors.New("URI subjectAltNames are not allowed")
	}
	if err := exactly(usages, certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageServerAuth); err != nil {
		return err
	}
	if !strings.HasPrefix(r.Subject.CommonName, "system:node:") {
		//lint:ignore ST1005 Kubernetes' words
		return errors.New("subject common name does not begin with system:node:")
	}
	return nil
}

// exactly returns an error unless usages are all of the given ones, which are sorted. Keys other
// than RSA cannot have the usage key encipherment, and so it may be missing.
func exactly(usages []certificatesv1.KeyUsage, all ...certificatesv1.KeyUsage) error {
	sorted := slices.Compact(slices.Sorted(slices.Values(usages)))
	others := slices.DeleteFunc(slices.Clone(all), func(u certificatesv1.KeyUsage) bool { return u == certificatesv1.UsageKeyEncipherment })
	if !slices.Equal(sorted, all) && !slices.Equal(sorted, others) {
		return fmt.Errorf("usages did not match %v", all)
	}
	return nil
}

// life returns the duration of a certificate from the duration in the request; nil means the
// default.
func life(seconds *int32) time.Duration {
	if seconds == nil {
		return longest
	}
	return min(max(time.Duration(*seconds)*time.Second, shortest), longest)
}

// template returns the template of the certificate for a request whose usages have been checked. It
// copies subject and names, and nothing else, from the request.
func template(r *x509.CertificateRequest, usages []certificatesv1.KeyUsage, life time.Duration, now time.Time) *x509.Certificate {
	t := &x509.Certificate{
		Subject:        r.Subject,
		DNSNames:       r.DNSNames,
		IPAddresses:    r.IPAddresses,
		EmailAddresses: r.EmailAddresses,
		URIs:           r.URIs,
		NotBefore:      now.Add(-backdate),
		NotAfter:       now.Add(life),
	}
	if life >= briefly {
		t.NotAfter = t.NotAfter.Add(-backdate)
	}
	for _, u := range usages {
		switch u {
		case certificatesv1.UsageDigitalSignature:
			t.KeyUsage |= x509.KeyUsageDigitalSignature
		case certificatesv1.UsageKeyEncipherment:
			t.KeyUsage |= x509.KeyUsageKeyEncipherment
		case certificatesv1.UsageClientAuth:
			t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		case certificatesv1.UsageServerAuth:
			t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		}
	}
	return t
}
