// Package compat finds changes of CustomResourceDefinitions that break their users: objects that
// were valid and are not any more, fields that objects lose, requests that are answered otherwise.
//
// [Definitions] compares two states of a definition. It is exact about what it reports, and reports
// what may break: a new rule, for example, may reject no object that exists. Kubernetes lets an
// object keep an invalid value as long as an update does not change it (ratcheting), but not a new
// object.
//
// [Since] compares files with those of a commit, by the program git. The package keeps no state and
// starts no goroutines.
package compat
