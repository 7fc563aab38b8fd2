// Package config reads the configuration of kube-scheduler, a KubeSchedulerConfiguration of
// kubescheduler.config.k8s.io/v1, and compiles it to profiles of package place.
//
//	file, err := config.Read("scheduler.yaml")
//	...
//	err = scheduler.Options{Configuration: file}.Add(mgr)
//
// [Read] decodes strictly: unknown and duplicate fields are errors. [Compile] applies the defaults
// of kube-scheduler 1.37, validates by its rules and merges plugin sets as it does (profile.go,
// args.go). A setting without a counterpart here is an error that names the field, the value and
// the reason; those that have no effect but on speed are accepted.
//
// There are no goroutines and no locks.
package config
