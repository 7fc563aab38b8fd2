// Package judge compares the OpenAPI documents with Kubernetes' own: those that its repository records for the built-in kinds,
// and those that its builder makes of CustomResourceDefinitions. It is a module of its own because the judges are heavy.
package judge
