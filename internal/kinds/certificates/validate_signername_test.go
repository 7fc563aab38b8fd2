package certificates

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestProblemsOfSignerNames(t *testing.T) {
	at := field.NewPath("x")
	for _, c := range []struct {
		check func(string, *field.Path) field.ErrorList
		name  string
		want  string // part of the error, "" if there is none
	}{
		{validateSignerName, "kubernetes.io/kubelet-serving", ""},
		{validateSignerName, "example.com/ns.name", ""},
		{validateSignerName, "", "Required"},
		{validateSignerName, strings.Repeat("a", 254) + ".b/c", "may not be more than 253"},
	} {
		errs := c.check(c.name, at)
		if (c.want == "") != (len(errs) == 0) || len(errs) > 0 && !strings.Contains(errs[0].Error(), c.want) {
			t.Errorf("%.60q: %v, want %q", c.name, errs, c.want)
		}
	}
}
