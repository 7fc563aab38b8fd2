package pods

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestPullPolicy(t *testing.T) {
	const digest = "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for image, want := range map[string]corev1.PullPolicy{
		"nginx":                 corev1.PullAlways,
		"nginx:latest":          corev1.PullAlways,
		"nginx:1.27":            corev1.PullIfNotPresent,
		"host:5000/nginx":       corev1.PullAlways,
		"host:5000/a/b:c":       corev1.PullIfNotPresent,
		"localhost/a":           corev1.PullAlways,
		"nginx" + digest:        corev1.PullIfNotPresent,
		"nginx:latest" + digest: corev1.PullAlways,
		"Nginx":                 corev1.PullIfNotPresent, // not valid
		"HOST/nginx":            corev1.PullAlways,
		"":                      corev1.PullIfNotPresent,
		"a//b":                  corev1.PullIfNotPresent,
		digest[8:]:              corev1.PullIfNotPresent, // an id
	} {
		if got := pullPolicy(image); got != want {
			t.Errorf("%s: got %s, want %s", image, got, want)
		}
	}
}
