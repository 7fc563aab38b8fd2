package etcd

import (
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/kinds/versions"

	"k8s.io/client-go/kubernetes/scheme"
)

// TestDecodesWhatClientGoKnows judges the kinds that are decoded by those of client-go.
func TestDecodesWhatClientGoKnows(t *testing.T) {
	n := 0
	for kind := range scheme.Scheme.AllKnownTypes() {
		if kind.Version == "__internal" {
			continue
		}
		n++
		if !versions.Scheme().Recognizes(kind) {
			t.Errorf("%s is not decoded", strings.TrimPrefix(kind.String(), "/"))
		}
	}
	if n < 500 {
		t.Errorf("client-go knows %d kinds only", n)
	}
}
