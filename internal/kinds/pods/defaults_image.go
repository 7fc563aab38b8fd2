package pods

import (
	"regexp"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// pullPolicy returns the default pull policy of an image: Always for the tag latest, which may
// change, and IfNotPresent otherwise.
func pullPolicy(image string) corev1.PullPolicy {
	if isLatest(image) {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// isLatest reports whether an image is valid and has the tag latest, or neither tag nor digest.
func isLatest(image string) bool {
	match := imageGrammar().FindStringSubmatch(qualifiedImage(image))
	if match == nil || identifier().MatchString(image) {
		return false
	}
	tag, digest := match[1], match[2]
	return tag == "latest" || tag == "" && digest == ""
}

// qualifiedImage adds the default host to images without one. The first part is a host if it has a
// dot, a port or capitals, or is localhost.
func qualifiedImage(image string) string {
	host, _, ok := strings.Cut(image, "/")
	if ok && (strings.ContainsAny(host, ".:") || host == "localhost" || strings.ToLower(host) != host) {
		return image
	}
	return "docker.io/" + image
}

// imageGrammar is the grammar of references in the OCI distribution specification:
// host/path:tag@digest.
var imageGrammar = sync.OnceValue(func() *regexp.Regexp {
	const (
		label  = `[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?`
		host   = `(?:` + label + `(?:\.` + label + `)*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?`
		part   = `[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*`
		tag    = `(\w[\w.-]{0,127})`
		digest = `([A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})`
	)
	return regexp.MustCompile(`^` + host + `(?:/` + part + `)+(?::` + tag + `)?(?:@` + digest + `)?$`)
})

// identifier is the pattern of an image ID, which is not a name.
var identifier = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-f0-9]{64}$`) })
