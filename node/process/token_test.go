//go:build linux || darwin

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/client"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An issuer is a client of a server that issues tokens with the time of their expiry.
type issuer struct {
	client.Client
	issued int
	fails  bool
}

func (i *issuer) SubResource(string) client.SubResourceClient { return tokens{issuer: i} }

type tokens struct {
	client.SubResourceClient
	issuer *issuer
}

func (t tokens) Create(_ context.Context, _ client.Object, sub client.Object, _ ...client.SubResourceCreateOption) error {
	if t.issuer.fails {
		return errors.New("the server is not available")
	}
	t.issuer.issued++
	r := sub.(*authenticationv1.TokenRequest)
	r.Status.ExpirationTimestamp = metav1.NewTime(time.Now().Add(time.Duration(*r.Spec.ExpirationSeconds) * time.Second))
	r.Status.Token = r.Status.ExpirationTimestamp.UTC().Format(time.RFC3339)
	return nil
}

// TestTokens reads the token of a pod for days of virtual time: it is replaced before it expires,
// and not more often than needed.
func TestTokens(t *testing.T) {
	for _, test := range []struct {
		lifetime time.Duration
		days     int
		issued   int // the maximum of requests
	}{
		{10 * time.Minute, 1, 24*60/8 + 1}, // 8 minutes are four fifths of the lifetime
		{time.Hour, 2, 2*24*60/48 + 1},
		{72 * time.Hour, 6, 6 + 1}, // after a day
	} {
		t.Run(test.lifetime.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &issuer{}
				read := tokenFile(t, server, test.lifetime)
				step := max(refreshVolumes, test.lifetime/100)
				for end := time.Now().Add(time.Duration(test.days) * 24 * time.Hour); time.Now().Before(end); time.Sleep(step) {
					expiry, err := read()
					if err != nil {
						t.Fatal(err)
					}
					if left := time.Until(expiry); left < test.lifetime/5-step {
						t.Fatalf("the token of %v expires in %v", test.lifetime, left)
					}
				}
				if server.issued > test.issued {
					t.Errorf("%d tokens were issued, want at most %d", server.issued, test.issued)
				}
			})
		})
	}
}

// TestTokenOfUnavailableServer reads a token that cannot be renewed: it stays until it expires.
func TestTokenOfUnavailableServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &issuer{}
		read := tokenFile(t, server, time.Hour)
		first, err := read()
		if err != nil {
			t.Fatal(err)
		}
		server.fails = true
		time.Sleep(59 * time.Minute)
		if got, err := read(); err != nil || !got.Equal(first) {
			t.Errorf("before it expires, the token is %v, %v, want %v", got, err, first)
		}
		time.Sleep(2 * time.Minute)
		if _, err := read(); err == nil {
			t.Error("an expired token is no error")
		}
		server.fails = false
		if got, err := read(); err != nil || time.Until(got) != time.Hour {
			t.Errorf("afterwards, the token is %v, %v", got, err)
		}
	})
}

// tokenFile returns a function that sets up the volume with the token of a pod, and returns when
// the token in its file expires.
func tokenFile(t *testing.T, server *issuer, lifetime time.Duration) func() (time.Time, error) {
	t.Helper()
	p, _ := newTestPods(t, Options{})
	p.client = server
	seconds := int64(lifetime / time.Second)
	v := corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds}},
	}}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{v}}}
	env := &environment{ctx: t.Context(), pod: pod}
	return func() (time.Time, error) {
		if err := p.volumes(t.Context(), env); err != nil {
			return time.Time{}, err
		}
		text, err := os.ReadFile(filepath.Join(p.path(p.ownVolume(pod, "v")), "token"))
		if err != nil {
			return time.Time{}, err
		}
		expiry, err := time.Parse(time.RFC3339, string(text))
		if err != nil {
			return expiry, fmt.Errorf("the token is %q: %w", text, err)
		}
		return expiry, nil
	}
}
