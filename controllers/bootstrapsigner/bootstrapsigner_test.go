package bootstrapsigner_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/test/controllertest"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newToken(id string, change map[string]string) *corev1.Secret {
	data := map[string]string{"token-id": id, "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true"}
	maps.Copy(data, change)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-" + id}, Type: corev1.SecretTypeBootstrapToken, StringData: data,
	}
}

// TestSign checks which tokens sign, and that their signatures follow the tokens and the text.
func TestSign(t *testing.T) {
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		at := func(in time.Duration) string { return time.Now().Add(in).UTC().Format(time.RFC3339) }
		controllertest.Run(t, env, "bootstrap-signer-controller")
		first, short := newToken("abcdef", nil), newToken("bbbbbb", map[string]string{"expiration": at(time.Hour)})
		otherName := newToken("cccccc", nil)
		otherName.Name = "odd"
		otherType := newToken("iiiiii", nil)
		otherType.Type = corev1.SecretTypeOpaque
		env.Create(first, short, otherName, otherType,
			newToken("dddddd", map[string]string{"expiration": at(-time.Hour)}),
			newToken("eeeeee", map[string]string{"expiration": "tomorrow"}),
			newToken("ffffff", map[string]string{"usage-bootstrap-signing": "yes"}),
			newToken("gggggg", map[string]string{"token-id": "hhhhhh"}),
			newToken("jjjjjj", map[string]string{"token-secret": ""}))
		info := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-public", Name: "cluster-info"},
			Data:       map[string]string{"jws-kubeconfig-zzzzzz": "old"},
		}
		want := func(step string, keys ...string) {
			t.Helper()
			env.Settle()
			env.Get(info)
			if got := slices.Sorted(maps.Keys(info.Data)); !slices.Equal(got, keys) {
				t.Errorf("%s: cluster-info has %q, want %q", step, got, keys)
			}
		}
		env.Create(info)
		want("without a text", "jws-kubeconfig-zzzzzz")
		env.Update(info, func() { info.Data["kubeconfig"] = "kind: Config\n" })
		want("with a text", "jws-kubeconfig-abcdef", "jws-kubeconfig-bbbbbb", "kubeconfig")
		// That of jws.ComputeDetachedSignature in k8s.io/cluster-bootstrap.
		before := info.Data["jws-kubeconfig-abcdef"]
		if want := "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9..3ZR7IfHD4V0NLYjj9trDyCFIZSwMzkyMpnxx9vCiSPI"; before != want {
			t.Errorf("signature %s, want %s", before, want)
		}
		time.Sleep(59 * time.Minute)
		want("before a token expires", "jws-kubeconfig-abcdef", "jws-kubeconfig-bbbbbb", "kubeconfig")
		time.Sleep(2 * time.Minute)
		want("after that", "jws-kubeconfig-abcdef", "kubeconfig")
		env.Update(info, func() { info.Data["kubeconfig"] = "kind: Other\n" })
		want("with another text", "jws-kubeconfig-abcdef", "kubeconfig")
		if info.Data["jws-kubeconfig-abcdef"] == before {
			t.Error("the signature of another text is the same")
		}
		env.Create(newToken("kkkkkk", nil))
		want("with another token", "jws-kubeconfig-abcdef", "jws-kubeconfig-kkkkkk", "kubeconfig")
		env.Delete(first)
		want("without the first token", "jws-kubeconfig-kkkkkk", "kubeconfig")
		if n := controllertest.Writes(env, 48*time.Hour); n > 0 {
			t.Errorf("%d writes at rest", n)
		}
	})
}
