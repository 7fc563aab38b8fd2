// Package derive has generators of what users of an API want beside its definitions: documentation,
// JSON schemas for editors, types for TypeScript, and a sample with every field. They are
// generators of controller-tools, and read the same Go types and markers as its generator crd.
//
// Each generator writes its files through the output rule of its context. Its errors about sources
// are those of the packages that it reads, as with crd.
package derive
