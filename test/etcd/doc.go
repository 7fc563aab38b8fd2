// Package etcd tests the journal on etcd against etcd itself, in this process: the
// conformance suite, replicas side by side, members that are killed and networks
// that break. It is a module of its own, because few who build Kapok need to have
// etcd's server.
package etcd
