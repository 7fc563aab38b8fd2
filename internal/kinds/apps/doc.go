// Package apps defines the workloads that keep pods running: deployments, replica sets, stateful
// sets, daemon sets, controller revisions, replication controllers and pod templates.
package apps
