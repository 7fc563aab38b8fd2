package csrcleaner

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestEndOf checks when each state of a request ends.
func TestEndOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		type conditions []certificatesv1.CertificateSigningRequestCondition
		condition := func(of certificatesv1.RequestConditionType, after time.Duration) certificatesv1.CertificateSigningRequestCondition {
			return certificatesv1.CertificateSigningRequestCondition{Type: of, LastUpdateTime: metav1.NewTime(start.Add(after))}
		}
		approved, denied, failed := certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed
		for _, tc := range []struct {
			name        string
			conditions  conditions
			certificate []byte
			want        time.Duration // since the creation; 0: never
		}{
			{"pending", nil, nil, 24 * time.Hour},
			{"denied", conditions{condition(denied, time.Minute)}, nil, time.Hour + time.Minute},
			{"failed", conditions{condition(failed, time.Minute)}, nil, time.Hour + time.Minute},
			{"approved", conditions{condition(approved, time.Minute)}, nil, 24*time.Hour + time.Minute},
			{"approved, then failed", conditions{condition(approved, time.Minute), condition(failed, 2*time.Minute)}, nil, time.Hour + 2*time.Minute},
			{"issued", conditions{condition(approved, time.Minute)}, newCertificate(t, 24*time.Hour), time.Hour + time.Minute},
			{"issued for a short time", conditions{condition(approved, time.Minute)}, newCertificate(t, 10*time.Minute), 10 * time.Minute},
			{"issued, unreadable", conditions{condition(approved, time.Minute)}, []byte("none"), time.Hour + time.Minute},
			{"issued, not approved", nil, newCertificate(t, 10*time.Minute), 24 * time.Hour},
			{"approved without a time", conditions{{Type: approved}}, nil, 0},
			{"issued without a time", conditions{{Type: approved}}, newCertificate(t, 2*time.Hour), 2 * time.Hour},
			{"another condition", conditions{condition("Other", 0)}, nil, 0},
		} {
			csr := &certificatesv1.CertificateSigningRequest{}
			csr.CreationTimestamp = metav1.NewTime(start)
			csr.Status.Conditions, csr.Status.Certificate = tc.conditions, tc.certificate
			got := endOf(csr)
			if tc.want == 0 {
				if !got.IsZero() {
					t.Errorf("%s: ends after %v, want never", tc.name, got.Sub(start))
				}
			} else if got.Sub(start) != tc.want {
				t.Errorf("%s: ends after %v, want %v", tc.name, got.Sub(start), tc.want)
			}
		}
	})
}

func newCertificate(t *testing.T, lifetime time.Duration) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "user"}, NotBefore: time.Now(), NotAfter: time.Now().Add(lifetime),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
