// Package certificates defines certificate signing requests, pod certificate requests and cluster
// trust bundles.
package certificates
