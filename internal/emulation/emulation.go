// Package emulation has the releases of Kubernetes that a server can behave as, like kube-apiserver
// with --emulated-version.
package emulation

import (
	"fmt"
	"strconv"
	"strings"
)

// A Release is a minor release of Kubernetes, such as 36 for 1.36.
type Release int

// The releases that a server can behave as: those that kube-apiserver 1.37 can emulate.
const (
	Oldest Release = 34
	Newest Release = 37
)

// Parse returns the release with a name such as 1.36 or, as in the flag of kube-apiserver,
// kube=1.36. An empty text is the newest release.
func Parse(text string) (Release, error) {
	if text == "" {
		return Newest, nil
	}
	name, _ := strings.CutPrefix(text, "kube=")
	minor, found := strings.CutPrefix(name, "1.")
	n, err := strconv.Atoi(minor)
	r := Release(n)
	if !found || err != nil || r < Oldest || r > Newest || r.String() != name {
		return 0, fmt.Errorf("%q is not a release that can be emulated: want 1.34, 1.35, 1.36 or 1.37", text)
	}
	return r, nil
}

// String returns the name, such as 1.36.
func (r Release) String() string { return "1." + strconv.Itoa(int(r)) }
