// Package framework compares Kapok's framework with controller-runtime: what programs written for
// one need to move to the other, and what both cost. It is a module of its own, so that users of
// Kapok do not depend on controller-runtime.
package framework
