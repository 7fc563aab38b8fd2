// Package bootstraptoken reads the Secrets of bootstrap tokens. The names are those of
// k8s.io/cluster-bootstrap/token/api.
package bootstraptoken

import (
	"regexp"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Namespace is the namespace of the Secrets of tokens.
const Namespace = "kube-system"

var secretName = regexp.MustCompile(`^bootstrap-token-([a-z0-9]{6})$`)

// Expires returns the time that is left until a token expires. A token without an expiration has
// zero left and has not expired; one with an invalid expiration has expired.
func Expires(s *corev1.Secret, now time.Time) (left time.Duration, expired bool) {
	text := string(s.Data["expiration"])
	if text == "" {
		return 0, false
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil || !now.Before(at) {
		return 0, true
	}
	return at.Sub(now), false
}

// Signing returns the ID and the secret part of a token that signs cluster-info; ok is false if the
// token is invalid, has expired, or is not for that.
func Signing(s *corev1.Secret, now time.Time) (id, private string, ok bool) {
	name := secretName.FindStringSubmatch(s.Name)
	if s.Type != corev1.SecretTypeBootstrapToken || name == nil || string(s.Data["usage-bootstrap-signing"]) != "true" {
		return "", "", false
	}
	id, private = string(s.Data["token-id"]), string(s.Data["token-secret"])
	_, expired := Expires(s, now)
	return id, private, id == name[1] && private != "" && !expired
}
