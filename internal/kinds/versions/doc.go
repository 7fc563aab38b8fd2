// Package versions has all versions of Kubernetes' built-in kinds, retired ones included: their Go
// types and the conversions between them.
//
//	out, err := versions.Convert([]byte(manifest), schema.GroupVersion{Group: "apps", Version: "v1"}, nil)
//
// Convert decodes an object, applies the defaults of its version (package defaults) and converts it
// through the hub of its kind (package convert). The result is that of Kubernetes 1.37's own
// conversion, which goes through its internal types; test/convert compares the two. Versions that
// Kubernetes has removed from its sources (autoscaling/v2beta1 and v2beta2, batch/v2alpha1) are
// defined here. Kinds without a successor (PodSecurityPolicy) return an error with the remedy.
//
// The scheme and the converter are built on first use, immutable and shared by the whole process.
// The package starts no goroutine.
package versions
