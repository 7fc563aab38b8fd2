package vet

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// TestLimits checks minimum and maximum, with the markers that exclude them.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		of                   string
		low, high            float64
		excludeLow, excludes bool
		fault                string
	}{
		{"integer", 3, 3, false, false, ""},
		{"integer", 3, 3, true, false, "no value is valid: minimum is 3 (exclusive), and maximum is 3"},
		{"integer", 3, 4, true, false, ""},
		{"integer", 3, 4, true, true, "no value is valid: minimum is 3 (exclusive), and maximum is 4 (exclusive)"},
		{"integer", 3, 5, true, true, ""},
		{"integer", 3.2, 3.8, false, false, "no value is valid: minimum is 3.2, and maximum is 3.8"},
		{"integer", 3.2, 4, true, false, ""},
		{"integer", 5, 4, false, false, "no value is valid: minimum is 5, and maximum is 4"},
		{"number", 3, 4, true, true, ""},
		{"number", 3, 3, false, true, "no value is valid: minimum is 3, and maximum is 3 (exclusive)"},
	} {
		s := &apiextensionsv1.JSONSchemaProps{Type: c.of, Minimum: &c.low, Maximum: &c.high, ExclusiveMinimum: c.excludeLow, ExclusiveMaximum: c.excludes}
		if _, fault := contradiction(s); fault != c.fault {
			t.Errorf("%+v: %q", c, fault)
		}
	}
}
