// Package policies defines the kinds of admission: webhook configurations, policies and their
// bindings.
package policies
