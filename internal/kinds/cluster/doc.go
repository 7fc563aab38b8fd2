// Package cluster defines the kinds that a cluster consists of: namespaces, nodes, config maps,
// secrets, service accounts, events, leases, quotas, API services and storage version migrations.
package cluster
