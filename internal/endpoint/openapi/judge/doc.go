// Package judge compares the OpenAPI documents with those of Kubernetes: the ones that its
// repository records for the built-in kinds, and the ones that its builder makes of
// CustomResourceDefinitions. It is a separate module because of the dependencies that this needs.
package judge
