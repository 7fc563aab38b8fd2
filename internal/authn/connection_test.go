package authn

import (
	"crypto/x509"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestVerificationsOfConnection counts the verifications of the certificate of a connection.
func TestVerificationsOfConnection(t *testing.T) {
	ours, theirs := x509.NewCertPool(), x509.NewCertPool()
	expired := x509.CertificateInvalidError{Reason: x509.Expired}
	for _, tc := range []struct {
		name  string
		err   error
		lasts time.Duration // lifetime of the certificate
		wait  time.Duration // between two bursts of requests
		then  *x509.CertPool
		want  int64
	}{
		{"accepted", nil, 24 * time.Hour, time.Hour, ours, 1},
		{"accepted, and expires", nil, time.Hour, 2 * time.Hour, ours, 1},
		{"accepted, other authorities", nil, time.Hour, 0, theirs, 2},
		{"foreign", x509.UnknownAuthorityError{}, 0, 9 * time.Second, ours, 1},
		{"foreign, later", x509.UnknownAuthorityError{}, 0, 10 * time.Second, ours, 2},
		{"expired", expired, 0, 9 * time.Second, ours, 1},
		{"expired, later", expired, 0, 10 * time.Second, ours, 2},
		{"other reasons", errors.New("too many paths"), 0, 9 * time.Second, ours, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var v verification
				var verified atomic.Int64
				expires := time.Now().Add(tc.lasts)
				burst := func(by *x509.CertPool) {
					var all sync.WaitGroup
					for range 100 {
						all.Go(func() {
							u, err := v.get(by, func() (*User, time.Time, error) {
								verified.Add(1)
								return Admin(), expires, tc.err
							})
							if holds := tc.err == nil && !time.Now().After(expires); (err == nil) != holds || (u != nil) != holds {
								t.Errorf("got %v, %v, holds %t", u, err, holds)
							}
						})
					}
					all.Wait()
				}
				burst(ours)
				time.Sleep(tc.wait)
				burst(tc.then)
				if got := verified.Load(); got != tc.want {
					t.Errorf("verified %d times, want %d", got, tc.want)
				}
			})
		})
	}
}
