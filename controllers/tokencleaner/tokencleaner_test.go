package tokencleaner_test

import (
	"testing"
	"time"

	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/test/controllertest"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newToken(namespace, name string, typ corev1.SecretType, expiration string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: typ}
	if expiration != "" {
		s.StringData = map[string]string{"expiration": expiration}
	}
	return s
}

// TestClean checks that tokens go when they expire, not before, and that no other Secrets do.
func TestClean(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		at := func(in time.Duration) string { return time.Now().Add(in).UTC().Format(time.RFC3339) }
		const typ = corev1.SecretTypeBootstrapToken
		env.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
		early := newToken("kube-system", "bootstrap-token-aaaaaa", typ, at(time.Minute)) // when the controller starts, it has expired
		prolonged := newToken("kube-system", "bootstrap-token-bbbbbb", typ, at(time.Hour))
		stay := []*corev1.Secret{
			newToken("kube-system", "bootstrap-token-cccccc", typ, ""),
			newToken("kube-system", "bootstrap-token-dddddd", corev1.SecretTypeOpaque, at(time.Minute)),
			newToken("other", "bootstrap-token-eeeeee", typ, at(time.Minute)),
		}
		env.Create(early, prolonged, stay[0], stay[1], stay[2])
		time.Sleep(2 * time.Minute)
		controllertest.Run(t, env, "token-cleaner-controller")
		invalid := newToken("kube-system", "bootstrap-token-ffffff", typ, "tomorrow")
		oddName := newToken("kube-system", "odd", typ, at(time.Hour))
		env.Create(invalid, oddName)
		env.Settle()
		if env.Exists(early) || env.Exists(invalid) {
			t.Errorf("an expired token exists: %t, one with an invalid expiration: %t", env.Exists(early), env.Exists(invalid))
		}
		time.Sleep(30 * time.Minute)
		env.Get(prolonged)
		env.Update(prolonged, func() { prolonged.Data["expiration"] = []byte(at(2 * time.Hour)) })
		for _, step := range []struct {
			wait               time.Duration
			prolonged, oddName bool
		}{
			{29 * time.Minute, true, true},
			{2 * time.Minute, true, false},
			{88 * time.Minute, true, false},
			{2 * time.Minute, false, false},
		} {
			time.Sleep(step.wait)
			if a, b := env.Exists(prolonged), env.Exists(oddName); a != step.prolonged || b != step.oddName {
				t.Errorf("%v later: the prolonged token exists: %t, the one with another name: %t", step.wait, a, b)
			}
		}
		for _, s := range stay {
			if !env.Exists(s) {
				t.Errorf("%s/%s was deleted", s.Namespace, s.Name)
			}
		}
		if n := controllertest.Writes(env, 48*time.Hour); n > 0 {
			t.Errorf("%d writes at rest", n)
		}
	})
}
