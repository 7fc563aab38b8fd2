// Package etcd tests the journal on etcd against etcd itself, in this process: the conformance
// suite, concurrent replicas, killed members and broken networks. It is a separate module, so that
// Kapok's module does not depend on etcd's server.
package etcd
