package defaults

import (
	"regexp"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// pullPolicy is the one of images whose container names none: what is latest may
// change, and everything else is pulled once.
func pullPolicy(image string) corev1.PullPolicy {
	if isLatest(image) {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// isLatest says whether an image is valid and has the tag latest, or neither tag
// nor digest.
func isLatest(image string) bool {
	match := imageGrammar().FindStringSubmatch(qualifiedImage(image))
	if match == nil || identifier().MatchString(image) {
		return false
	}
	tag, digest := match[1], match[2]
	return tag == "latest" || tag == "" && digest == ""
}

// qualifiedImage puts the host in front of images that have none. The first part
// is a host if it looks like one: with a dot, a port, capitals, or localhost.
func qualifiedImage(image string) string {
	host, _, ok := strings.Cut(image, "/")
	if ok && (strings.ContainsAny(host, ".:") || host == "localhost" || strings.ToLower(host) != host) {
		return image
	}
	return "docker.io/" + image
}

// imageGrammar is that of the OCI distribution specification's references:
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

// identifier is the id of an image, which is no name.
var identifier = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-f0-9]{64}$`) })
