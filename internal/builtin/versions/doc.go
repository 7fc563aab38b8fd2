// Package versions knows the kinds that Kubernetes ships in all their versions, also in those that it has retired: the Go
// types, and how objects get from one version to another.
//
//	out, err := versions.Convert([]byte(manifest), schema.GroupVersion{Group: "apps", Version: "v1"}, nil)
//
// An object is decoded, given the defaults of its version (package defaults), and taken to the target through the hub of
// its kind, as package convert does it. The outcome is that of Kubernetes 1.37's own conversion, which goes through its
// internal types; test/convert holds the two side by side. Versions that Kubernetes has forgotten altogether
// (autoscaling/v2beta1 and v2beta2, batch/v2alpha1) are kept by this package.
//
// What has no successor (PodSecurityPolicy) is not converted, and the error says so.
//
// The scheme and the converter are made when they are first needed, are immutable then and shared by all of a process.
// The package starts no goroutine.
package versions
