// Package devices defines the kinds of dynamic resource allocation, group resource.k8s.io.
package devices
